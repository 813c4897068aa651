package protocol

import "bytes"

// inline reads a line of words at the start of the buffer; more: it has not come as a whole. A
// line without words has no arguments. r.at is up to where the end of the line was looked for.
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
	args, ok := splitLine(r.args, line, r.limits.Args)
	if !ok {
		return nil, false, fault("unbalanced quotes in request")
	}
	r.begin(end + 1)
	return args, false, nil
}

// splitLine appends the words of a line to words, at most so many. Words may be quoted as in
// redis-cli: "..." with \n \r \t \b \a \xHH and \ before any other character, '...' with \'
// alone. What is quoted is rewritten in line, in which it has room.
func splitLine(words [][]byte, line []byte, most int) (_ [][]byte, ok bool) {
	for {
		for len(line) > 0 && isSpace(line[0]) {
			line = line[1:]
		}
		switch {
		case len(line) == 0:
			return words, true
		case len(words) == most:
			return words, false
		}
		word, rest, ok := cutWord(line)
		if !ok {
			return words, false
		}
		words, line = append(words, word), rest
	}
}

// cutWord cuts the word that line begins with.
func cutWord(line []byte) (word, rest []byte, ok bool) {
	to := 0 // the bytes of the word so far
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case isSpace(c):
			return line[:to:to], line[i:], true
		case c == '"' || c == '\'':
			n, size, ok := unquote(line[to:], line[i+1:], c)
			if after := i + 1 + size; !ok || after < len(line) && !isSpace(line[after]) {
				return nil, nil, false
			}
			return line[: to+n : to+n], line[i+1+size:], true
		default:
			line[to] = c
			to++
		}
	}
	return line[:to:to], nil, true
}

// unquote writes to dst, which is not after src, what stands in src before a quote: n bytes, of
// the size bytes that end with the quote.
func unquote(dst, src []byte, quote byte) (n, size int, ok bool) {
	for i := 0; i < len(src); i++ {
		c := src[i]
		switch {
		case c == quote:
			return n, i + 1, true
		case c == '\\' && i+1 < len(src) && (quote == '"' || src[i+1] == '\''):
			i++
			c = src[i]
			if quote == '"' {
				if high, low, hex := hexPair(src[i:]); hex {
					c, i = high<<4|low, i+2
				} else {
					c = escaped(c)
				}
			}
		}
		dst[n] = c
		n++
	}
	return 0, 0, false
}

func escaped(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

// hexPair reads xHH.
func hexPair(b []byte) (high, low byte, ok bool) {
	if len(b) < 3 || b[0] != 'x' {
		return 0, 0, false
	}
	high, ok = hexDigit(b[1])
	if !ok {
		return 0, 0, false
	}
	low, ok = hexDigit(b[2])
	return high, low, ok
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' || c == 0 }
