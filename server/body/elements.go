package body

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

// next fails with errBrokenJSON, or with errCutJSON inside a document; io.EOF is the end of a
// whole document.
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

// peek skips white space and returns the byte after it without taking it, if
// there is more.
func (e *elements) peek() (c byte, more bool) {
	for ; e.r < len(e.buf); e.r++ {
		if c := e.buf[e.r]; !isJSONSpace(c) {
			return c, true
		}
	}
	return 0, false
}

func isJSONSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// value takes one value: up to the bracket that closes its first one, or, for
// a string or a scalar, to what can follow a value.
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

// take returns the next n bytes as a value. None at all is a comma or bracket
// where a value should be.
func (e *elements) take(n int) (value []byte, tooLong bool, err error) {
	value = e.buf[e.r : e.r+n]
	e.r += n
	if n == 0 {
		return nil, false, errBrokenJSON
	}
	return value, n > e.maxBytes, nil
}
