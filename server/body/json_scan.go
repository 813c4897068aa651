package body

import (
	"unicode/utf16"
	"unicode/utf8"
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

// number takes a number as it is written. What may follow a number is for the
// caller to check.
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

// codePoint takes the four digits after \u, and the second half of a surrogate
// pair. Half a pair alone names no letter: replacing it, as some readers do,
// would count two keys as one.
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
