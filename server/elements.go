package server

import (
	"errors"
	"io"
)

// errBrokenJSON says that the text between elements is not JSON, so that no
// further element can be found.
var errBrokenJSON = errors.New("broken JSON")

// elements splits a feed that holds one JSON object, or one array, into the
// object or the elements. It looks at brackets and strings only: whether an
// element is good is for its parser to say, so that a bad one does not lose
// the ones after it.
type elements struct {
	*feed
	maxBytes int // of one element, below len(buf)
	place    place
}

// place is where in the document the splitter stands.
type place uint8

const (
	atStart   place = iota
	atFirst         // after [
	atElement       // after a comma
	atComma         // after an element
	atEnd           // after the document
)

// next returns the next element, valid until the next call. The error is
// errRecordTooLong, after which next goes on; errBrokenJSON; io.EOF after a
// whole document; io.ErrUnexpectedEOF inside one; or what else ended the body.
func (e *elements) next() ([]byte, error) {
	for {
		c, err := e.peek()
		if err != nil {
			if err == io.EOF && e.place != atEnd && e.place != atStart {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		switch {
		case e.place == atEnd:
			return nil, errBrokenJSON
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
			return nil, errBrokenJSON
		default:
			e.place = atComma
			return e.value()
		}
	}
}

// peek skips white space and returns the byte after it without taking it.
func (e *elements) peek() (byte, error) {
	for {
		for ; e.r < e.w; e.r++ {
			if c := e.buf[e.r]; !isJSONSpace(c) {
				return c, nil
			}
		}
		if !e.more() {
			return 0, e.err
		}
	}
}

func isJSONSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// value takes one value: up to the bracket that closes its first one, or, for
// a string or a scalar, to what can follow a value.
func (e *elements) value() ([]byte, error) {
	var (
		n        int // bytes of the value seen
		depth    int
		inString bool
		escaped  bool // the byte before was a backslash in a string
		tooLong  bool
	)
	for {
		for ; e.r+n < e.w; n++ {
			c := e.buf[e.r+n]
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
				return e.take(n, tooLong)
			case c == '}' || c == ']':
				if depth--; depth == 0 {
					return e.take(n+1, tooLong)
				}
			}
		}
		if n > e.maxBytes {
			tooLong = true
			e.r, n = e.w, 0
		}
		if e.more() {
			continue
		}
		if e.err == io.EOF && depth == 0 && !inString {
			return e.take(n, tooLong)
		}
		if e.err == io.EOF {
			e.r = e.w
			return nil, io.ErrUnexpectedEOF
		}
		return nil, e.err
	}
}

// take returns the next n bytes as a value. None at all is a comma or bracket
// where a value should be.
func (e *elements) take(n int, tooLong bool) ([]byte, error) {
	value := e.buf[e.r : e.r+n]
	e.r += n
	switch {
	case tooLong || n > e.maxBytes:
		return nil, errRecordTooLong
	case n == 0:
		return nil, errBrokenJSON
	}
	return value, nil
}
