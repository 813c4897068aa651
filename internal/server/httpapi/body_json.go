package httpapi

import (
	"errors"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/request"
)

// jsonScanner reads the tokens of JSON (RFC 8259) from data[i:].
type jsonScanner struct {
	data []byte
	i    int
}

func (s *jsonScanner) space() {
	for s.i < len(s.data) && isJSONSpace(s.data[s.i]) {
		s.i++
	}
}

// peek skips white space and returns the next byte, 0 at the end.
func (s *jsonScanner) peek() byte {
	s.space()
	if s.i < len(s.data) {
		return s.data[s.i]
	}
	return 0
}

// token takes c if it comes next.
func (s *jsonScanner) token(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.i++
	return true
}

// null takes the word null if it comes next.
func (s *jsonScanner) null() bool { return s.word("null") }

// word takes a word such as true if it comes next.
func (s *jsonScanner) word(w string) bool {
	s.space()
	if rest := s.data[s.i:]; len(rest) < len(w) || string(rest[:len(w)]) != w {
		return false
	}
	s.i += len(w)
	return true
}

// number takes a number as it is written. What may follow a number is for the caller to check.
func (s *jsonScanner) number() (text []byte, ok bool) {
	s.space()
	start := s.i
	if s.i < len(s.data) && s.data[s.i] == '-' {
		s.i++
	}
	lead := s.i
	if whole := s.digits(); whole == 0 || whole > 1 && s.data[lead] == '0' {
		return nil, false
	}
	if s.i < len(s.data) && s.data[s.i] == '.' {
		s.i++
		if s.digits() == 0 {
			return nil, false
		}
	}
	if s.i < len(s.data) && s.data[s.i]|0x20 == 'e' {
		s.i++
		if s.i < len(s.data) && (s.data[s.i] == '+' || s.data[s.i] == '-') {
			s.i++
		}
		if s.digits() == 0 {
			return nil, false
		}
	}
	return s.data[start:s.i], true
}

// digits takes a run of digits and returns how many they were.
func (s *jsonScanner) digits() int {
	start := s.i
	for s.i < len(s.data) && s.data[s.i] >= '0' && s.data[s.i] <= '9' {
		s.i++
	}
	return s.i - start
}

// str takes a string. The text is a view of data when it has no escapes and
// otherwise written to *scratch. Bytes that are not UTF-8 pass through.
func (s *jsonScanner) str(scratch *[]byte) (text []byte, ok bool) {
	if !s.token('"') {
		return nil, false
	}
	start := s.i
	for ; s.i < len(s.data); s.i++ {
		switch c := s.data[s.i]; {
		case c == '"':
			s.i++
			return s.data[start : s.i-1], true
		case c == '\\':
			return s.escaped(append((*scratch)[:0], s.data[start:s.i]...), scratch)
		case c < ' ':
			return nil, false
		}
	}
	return nil, false
}

// escaped goes on with str from the first backslash; text is what came before.
func (s *jsonScanner) escaped(text []byte, scratch *[]byte) ([]byte, bool) {
	for s.i < len(s.data) {
		c := s.data[s.i]
		s.i++
		switch {
		case c == '"':
			*scratch = text // keep the grown buffer
			return text, true
		case c < ' ':
			return nil, false
		case c != '\\':
			text = append(text, c)
			continue
		}
		if s.i == len(s.data) {
			return nil, false
		}
		letter := s.data[s.i]
		s.i++
		switch letter {
		case '"', '\\', '/':
			text = append(text, letter)
		case 'b':
			text = append(text, '\b')
		case 'f':
			text = append(text, '\f')
		case 'n':
			text = append(text, '\n')
		case 'r':
			text = append(text, '\r')
		case 't':
			text = append(text, '\t')
		case 'u':
			r, ok := s.codePoint()
			if !ok {
				return nil, false
			}
			text = utf8.AppendRune(text, r)
		default:
			return nil, false
		}
	}
	return nil, false
}

// codePoint takes the four digits after \u, and the second half of a surrogate pair. Half a pair alone names no letter:
// replacing it, as some readers do, would count two keys as one.
func (s *jsonScanner) codePoint() (rune, bool) {
	r, ok := s.hex4()
	if !ok || !utf16.IsSurrogate(r) {
		return r, ok
	}
	if len(s.data)-s.i < 2 || s.data[s.i] != '\\' || s.data[s.i+1] != 'u' {
		return 0, false
	}
	s.i += 2
	low, ok := s.hex4()
	r = utf16.DecodeRune(r, low)
	return r, ok && r != utf8.RuneError
}

func (s *jsonScanner) hex4() (rune, bool) {
	if len(s.data)-s.i < 4 {
		return 0, false
	}
	var r rune
	for _, c := range s.data[s.i : s.i+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	s.i += 4
	return r, true
}

var (
	rejectJSON      = reject(api.CodeInvalidJSON, "not valid JSON")
	rejectNotObject = reject(api.CodeInvalidJSON, `a hit is an object: {"key":"url:/home","n":1,"at":1769860800}`)
	rejectNoKey     = reject(api.CodeInvalidKey, `the hit has no "key"`)
	rejectKeyType   = reject(api.CodeInvalidKey, "key must be a string")
	rejectDistinct  = reject(api.CodeInvalidLine, "distinct must be a string of 1 to 512 bytes: the id, such as a visitor's, whose different values are counted")
	rejectAtType    = reject(api.CodeInvalidTime, "at must be a number of Unix seconds or an RFC 3339 string")
)

// jsonParser reads hits written as JSON objects. It knows this one shape, so
// that a line costs no reflection and no allocation.
type jsonParser struct {
	scanner jsonScanner
	value   []byte // the letters of a string that was written with escapes; not of a key
}

// parse reads one object {"key","n","at","distinct"}. Other fields, and fields given twice, are rejected rather than guessed at. n,
// at and distinct may be null, which stands for their defaults. blank is true for a record of white space.
func (p *jsonParser) parse(record []byte) (h hit, blank bool, rej *request.Rejection) {
	p.scanner = jsonScanner{data: record}
	if p.scanner.space(); p.scanner.i == len(record) {
		return h, true, nil
	}
	h, rej = p.object()
	return h, false, rej
}

func (p *jsonParser) object() (h hit, rej *request.Rejection) {
	s := &p.scanner
	if !s.token('{') {
		return h, rejectNotObject
	}
	h.n = 1
	var seen uint
	for first := true; !s.token('}'); first = false {
		if !first && !s.token(',') {
			return h, rejectJSON
		}
		name, ok := s.str(&p.value)
		if !ok || !s.token(':') {
			return h, rejectJSON
		}
		field := indexOf(hitMembers, name)
		if field < 0 {
			return h, reject(api.CodeUnknownField, fmt.Sprintf("field %s is not known: a hit has key, n, at and distinct", quoteField(name)))
		}
		if seen&(1<<field) != 0 {
			return h, reject(api.CodeInvalidJSON, fmt.Sprintf("field %s is given twice", quoteField(name)))
		}
		seen |= 1 << field
		switch field {
		case hitKey:
			rej = p.readKey(&h)
		case hitN:
			rej = p.readN(&h)
		case hitDistinct:
			rej = p.readDistinct(&h)
		default:
			rej = p.readAt(&h)
		}
		if rej != nil {
			return h, rej
		}
	}
	if s.space(); s.i < len(s.data) {
		return h, rejectJSON
	}
	if seen&(1<<hitKey) == 0 {
		return h, rejectNoKey
	}
	return h, nil
}

var hitMembers = []string{hitKey: "key", hitN: "n", hitAt: "at", hitDistinct: "distinct"}

const (
	hitKey = iota
	hitN
	hitAt
	hitDistinct
)

func (p *jsonParser) readKey(h *hit) *request.Rejection {
	if p.scanner.peek() != '"' {
		return rejectKeyType
	}
	var letters []byte // of their own, if there are any: the key outlives the next record
	key, ok := p.scanner.str(&letters)
	if !ok {
		return rejectJSON
	}
	h.key = view(key)
	return request.CheckHitKey(h.key)
}

func (p *jsonParser) readN(h *hit) (rej *request.Rejection) {
	if p.scanner.null() {
		return nil
	}
	number, ok := p.scanner.number()
	if !ok {
		number = nil // no number at all
	}
	h.n, rej = request.ParseCount(view(number))
	return rej
}

// readDistinct reads the id that a hit carries, and keeps its hash alone.
func (p *jsonParser) readDistinct(h *hit) *request.Rejection {
	if p.scanner.null() {
		return nil
	}
	if p.scanner.peek() != '"' {
		return rejectDistinct
	}
	id, ok := p.scanner.str(&p.value)
	switch {
	case !ok:
		return rejectJSON
	case len(id) == 0 || len(id) > engine.MaxIDBytes:
		return rejectDistinct
	}
	h.hasID, h.id = true, engine.HashID(view(id))
	return nil
}

func (p *jsonParser) readAt(h *hit) (rej *request.Rejection) {
	var at []byte
	var ok bool
	switch c := p.scanner.peek(); {
	case p.scanner.null():
		return nil
	case c == '"':
		if at, ok = p.scanner.str(&p.value); !ok {
			return rejectJSON
		}
	default:
		if at, ok = p.scanner.number(); !ok {
			return rejectAtType
		}
	}
	h.hasAt = true
	h.at, rej = request.ParseAt(view(at))
	return rej
}

// errBrokenJSON says that the text between elements is not JSON, so that no further element can be found.
var errBrokenJSON = errors.New("broken JSON")

// elements splits a feed that holds one JSON object, or one array, into the object or the elements. It looks at
// brackets and strings only. Its parser says whether an element is good: a bad one does not lose the ones after it.
type elements struct {
	*feed
	maxBytes int // of one element
	place    place
}

// errCutJSON says that the body ended well, but its JSON did not.
var errCutJSON = errors.New("cut JSON")

// place is where in the document the splitter stands.
type place uint8

const (
	atStart   place = iota
	atFirst         // after [
	atElement       // after a comma
	atComma         // after an element
	atEnd           // after the document
)

// next fails with errBrokenJSON, or with errCutJSON inside a document; io.EOF is the end of a whole document.
func (e *elements) next() (element []byte, tooLong bool, err error) {
	for {
		c, more := e.peek()
		if !more {
			if e.place != atEnd && e.place != atStart {
				return nil, false, errCutJSON
			}
			return nil, false, io.EOF
		}
		switch {
		case e.place == atEnd:
			return nil, false, errBrokenJSON
		case e.place == atStart && c == '[':
			e.r++
			e.place = atFirst
		case e.place == atStart:
			e.place = atEnd
			return e.value()
		case (e.place == atFirst || e.place == atComma) && c == ']':
			e.r++
			e.place = atEnd
		case e.place == atComma && c == ',':
			e.r++
			e.place = atElement
		case e.place == atComma:
			return nil, false, errBrokenJSON
		default:
			e.place = atComma
			return e.value()
		}
	}
}

// peek skips white space and returns the byte after it without taking it, if there is more.
func (e *elements) peek() (c byte, more bool) {
	for ; e.r < len(e.buf); e.r++ {
		if c := e.buf[e.r]; !isJSONSpace(c) {
			return c, true
		}
	}
	return 0, false
}

func isJSONSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// value takes one value: up to the bracket that closes its first one. A string or a scalar ends with what can follow a
// value.
func (e *elements) value() (value []byte, tooLong bool, err error) {
	var (
		depth    int
		inString bool
		escaped  bool // the byte before was a backslash in a string
	)
	rest := e.buf[e.r:]
	for n, c := range rest {
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped = c == '\\'
			inString = c != '"'
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			depth++
		case depth == 0 && (c == ',' || c == '}' || c == ']' || isJSONSpace(c)):
			return e.take(n)
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return e.take(n + 1)
			}
		}
	}
	if depth == 0 && !inString {
		return e.take(len(rest))
	}
	e.r = len(e.buf)
	return nil, false, errCutJSON
}

// take returns the next n bytes as a value. None at all is a comma or bracket where a value should be.
func (e *elements) take(n int) (value []byte, tooLong bool, err error) {
	value = e.buf[e.r : e.r+n]
	e.r += n
	if n == 0 {
		return nil, false, errBrokenJSON
	}
	return value, n > e.maxBytes, nil
}
