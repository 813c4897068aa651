package resp

import (
	"bytes"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/units"
)

// This file reads requests and writes replies of RESP, the protocol of Redis, in its versions 2 and 3. A request is an
// array of bulk strings, or a line of words (an inline command, as people type it). It uses the standard library only.
//
// Invariants. A Reader has one buffer, and its requests are views of it: a request that fits the buffer allocates
// nothing. ProtocolLimits bound a request before memory is taken for it. What a client announces takes no memory before
// it arrives. A request is parsed once, however many pieces it arrives in. A Writer keeps replies until Flush, or
// until it has flushBytes.

// Reader reads the requests of one client. Create it with NewReader; it is for one goroutine.
type Reader struct {
	source  io.Reader
	limits  ProtocolLimits
	reserve func(bytes int) error

	// Invariant: 0 <= start <= end <= len(buf). buf[start:end] was received and not yet read: the request under way,
	// and further ones.
	buf        []byte
	start, end int

	// State of an incomplete request:
	at    int    // where its next argument begins, or up to where its line was searched
	want  int    // missing arguments; 0: their number is not known
	spans []span // arguments that have arrived
	taken int    // bytes reserved for arguments beyond keptArgs

	args [][]byte
}

// span is the position of an argument, from the start of its request.
type span struct{ from, to int }

const (
	// keptArgs is for how many arguments a Reader keeps memory.
	keptArgs = 1024

	// argBytes is the memory of an argument without its bytes.
	argBytes = 40
)

// NewReader returns a Reader of source. Before the buffer grows beyond limits.Buffer, it calls reserve with the further
// bytes, which may refuse them. When it gives them back, it calls reserve with a negative number. A nil reserve always
// grants.
func NewReader(source io.Reader, limits ProtocolLimits, reserve func(bytes int) error) *Reader {
	if reserve == nil {
		reserve = func(int) error { return nil }
	}
	return &Reader{source: source, limits: limits, reserve: reserve, buf: make([]byte, limits.Buffer)}
}

// Next returns the arguments of the next request, the command's name first. It returns nil if no whole request has been
// received; then Fill receives more. The arguments are views of the buffer, which the caller may change. They are valid
// until the next call of Fill. Next skips requests without arguments. After a *ProtocolError there is no further
// request.
func (r *Reader) Next() ([][]byte, error) {
	for r.want == 0 {
		switch {
		case r.start == r.end:
			return nil, nil
		case r.buf[r.start] != '*':
			args, more, err := r.inline()
			if err != nil || more || len(args) > 0 {
				return args, err
			}
			continue
		}
		n, size := length(r.buf[r.start+1 : r.end])
		switch {
		case size == 0:
			return nil, nil
		case size < 0 || n > r.limits.Args:
			return nil, fault("invalid multibulk length")
		case n <= 0:
			r.begin(r.start + 1 + size)
			continue
		}
		r.want, r.at = n, r.start+1+size
	}
	for ; r.want > 0; r.want-- {
		if whole, err := r.argument(); !whole {
			return nil, err
		}
	}
	for _, s := range r.spans {
		r.args = append(r.args, r.buf[r.start+s.from:r.start+s.to:r.start+s.to])
	}
	args := r.args
	r.begin(r.at)
	return args, nil
}

// begin prepares for a request that begins at a position of the buffer.
func (r *Reader) begin(at int) {
	r.start, r.at, r.want = at, at, 0
	if r.taken > 0 {
		r.spans, r.args = nil, nil
		r.giveBackArgs()
	}
	r.spans, r.args = r.spans[:0], r.args[:0]
}

// argument reads the bulk string at r.at, if all of it has arrived.
func (r *Reader) argument() (whole bool, err error) {
	b := r.buf[r.at:r.end]
	if len(b) == 0 {
		return false, nil
	}
	if b[0] != '$' {
		return false, fault("expected '$', got '%s'", printable(b[0]))
	}
	n, size := length(b[1:])
	switch {
	case size == 0:
		return false, nil
	case size < 0 || n < 0 || n > r.limits.Bulk:
		return false, fault("invalid bulk length")
	}
	from := r.at + 1 + size
	to := from + n
	switch {
	case to+2-r.start > r.limits.Request:
		return false, r.tooLarge()
	case to+2 > r.end:
		return false, nil
	case r.buf[to] != '\r' || r.buf[to+1] != '\n':
		return false, fault("expected CRLF after a bulk string of %d bytes", n)
	}
	if err := r.reserveArg(); err != nil {
		return false, err
	}
	r.spans = append(r.spans, span{from - r.start, to - r.start})
	r.at = to + 2
	return true, nil
}

func (r *Reader) tooLarge() error {
	return fault("a request of more than %d bytes", r.limits.Request)
}

// printable returns a byte as messages show it.
func printable(c byte) string {
	if c < ' ' || c > '~' {
		return "?"
	}
	return string(rune(c))
}

// Partial reports whether a part of a request was received.
func (r *Reader) Partial() bool { return r.end > r.start }

// inline reads a line of words at the start of the buffer. The result more is true if the line is incomplete; then r.at
// is up to where its end was searched. A line without words has no arguments.
func (r *Reader) inline() (args [][]byte, more bool, err error) {
	end := bytes.IndexByte(r.buf[r.at:r.end], '\n')
	if end < 0 {
		r.at = r.end
		if r.end-r.start > r.limits.Inline {
			return nil, false, fault("too big inline request")
		}
		return nil, true, nil
	}
	end += r.at
	line := r.buf[r.start:end]
	if len(line) > r.limits.Inline {
		return nil, false, fault("too big inline request")
	}
	if bytes.ContainsAny(line, `"'`) {
		return nil, false, fault("a line has quotes: send an array of bulk strings, as redis-cli does")
	}
	for word := range bytes.FieldsFuncSeq(line, isSpace) {
		if len(args) == r.limits.Args {
			return nil, false, fault("too many arguments in request")
		}
		args = append(args, word)
	}
	r.begin(end + 1)
	return args, false, nil
}

func isSpace(c rune) bool { return c == ' ' || c >= '\t' && c <= '\r' || c == 0 }

// ProtocolLimits bound what one client may send. All must be set.
type ProtocolLimits struct {
	Buffer  int // bytes of a Reader's buffer while requests are small
	Request int // bytes of one request, not below Buffer
	Args    int // arguments of one request, with the command's name
	Bulk    int // bytes of one argument
	Inline  int // bytes of an inline request; not more than Buffer
}

// maxDigits is the most characters of a length: more than any bound needs.
const maxDigits = 20

// length reads a decimal number that ends with CRLF. The result size is the bytes of both; 0: more bytes must arrive,
// -1: it is no such number.
func length(b []byte) (n, size int) {
	i := 0
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		i = 1
	}
	first := i
	for ; i < len(b) && i < maxDigits; i++ {
		c := b[i]
		if c < '0' || c > '9' {
			break
		}
		n = min(n*10+int(c-'0'), 1<<40)
	}
	switch {
	case i == len(b):
		return 0, 0
	case i == first || b[i] != '\r':
		return 0, -1
	case i+1 == len(b):
		return 0, 0
	case b[i+1] != '\n':
		return 0, -1
	case negative:
		n = -n
	}
	return n, i + 2
}

// ParseInt reads a whole number of 64 bits as commands accept it: an optional minus and digits, without leading zeros.
func ParseInt(b []byte) (n int64, ok bool) {
	digits := bytes.TrimPrefix(b, []byte("-"))
	if len(digits) == 0 || digits[0] < '1' && len(b) > 1 || digits[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseInt(ArgumentView(b), 10, 64)
	return n, err == nil
}

// ParseUint is ParseInt for numbers from 0 on.
func ParseUint(b []byte) (n uint64, ok bool) {
	if len(b) > 1 && b[0] == '0' {
		return 0, false
	}
	n, err := strconv.ParseUint(ArgumentView(b), 10, 64)
	return n, err == nil
}

// This file reads the arguments of commands: numbers, durations, lifetimes of counters, words in any case; and has the errors
// that are written as replies.
//
// Invariant: what it returns keeps no part of an argument, but for View, which says so.

// ArgumentView is b as a string without a copy, for callees that keep no part of it.
func ArgumentView(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// WrongArgument is the error of an argument.
func WrongArgument(code api.Code, field, message string) error {
	return &api.Error{Code: code, Field: field, Message: message}
}

// ArgumentCount reads a number of admissions.
func ArgumentCount(arg []byte, field string, least uint64) (uint64, error) {
	n, ok := ParseUint(arg)
	if !ok || n < least {
		must := "a whole number from 0"
		if least > 0 {
			must = "a whole number from 1"
		}
		return 0, WrongArgument(api.CodeInvalidCount, field, field+" of "+ClipArgument(arg)+": must be "+must)
	}
	return n, nil
}

// ArgumentDuration reads a time such as 5m.
func ArgumentDuration(arg []byte, field string) (time.Duration, error) {
	d, err := units.ParseDuration(ArgumentView(arg))
	if err != nil {
		return 0, WrongArgument(api.CodeInvalidParameter, field, field+": "+err.Error())
	}
	return d, nil
}

// ArgumentInt reads a number as commands of Redis have it.
func ArgumentInt(arg []byte) (int64, error) {
	n, ok := ParseInt(arg)
	if !ok {
		return 0, ErrNotInteger
	}
	return n, nil
}

// ClipArgument keeps an echo of the client's own words short.
func ClipArgument(text []byte) string {
	const most = 64
	if len(text) > most {
		return string(text[:most]) + "..."
	}
	return string(text)
}

// ArgumentIs compares a word that people write in any case.
func ArgumentIs(word []byte, with string) bool {
	return len(word) == len(with) && strings.EqualFold(ArgumentView(word), with)
}

// ReplyError is an error as it is written: its kind, and what is wrong.
type ReplyError struct{ Kind, Text string }

// NewReplyError is an error of a kind, which clients tell apart, with a text for people.
func NewReplyError(kind, text string) *ReplyError { return &ReplyError{kind, text} }

func (e *ReplyError) Error() string { return e.Kind + " " + e.Text }

// The errors of Redis, in its words, which clients may know.
var (
	ErrSyntax     = NewReplyError("ERR", "syntax error")
	ErrNotInteger = NewReplyError("ERR", "value is not an integer or out of range")
	ErrOverflow   = NewReplyError("ERR", "increment or decrement would overflow")
	ErrExpireTime = NewReplyError("ERR", "invalid expire time")
)

// ArgumentMoment reads a time of n units from a beginning, in milliseconds.
func ArgumentMoment(arg []byte, unit, from int64) (int64, error) {
	n, err := ArgumentInt(arg)
	if err != nil {
		return 0, err
	}
	if n > (math.MaxInt64-from)/unit || n < math.MinInt64/unit {
		return 0, ErrExpireTime
	}
	return n*unit + from, nil
}

// Lifetime is one of EX, PX, EXAT, PXAT and their number.
type Lifetime struct {
	Said bool
	At   int64 // milliseconds
}

// Read reads an option and its number, if it is one.
func (l *Lifetime) Read(option []byte, rest [][]byte, now int64) (known bool, err error) {
	unit, from := int64(1), int64(0)
	switch {
	case ArgumentIs(option, "EX"):
		unit, from = 1000, now
	case ArgumentIs(option, "PX"):
		from = now
	case ArgumentIs(option, "EXAT"):
		unit = 1000
	case ArgumentIs(option, "PXAT"):
	default:
		return false, nil
	}
	if l.Said || len(rest) == 0 {
		return true, ErrSyntax
	}
	l.Said = true
	n, err := ArgumentInt(rest[0])
	if err != nil {
		return true, err
	}
	if n <= 0 {
		return true, ErrExpireTime
	}
	l.At, err = ArgumentMoment(rest[0], unit, from)
	return true, err
}
