package protocol

// maxDigits is the most characters of a length: more than any bound needs.
const maxDigits = 20

// length reads a decimal number that ends with CRLF. size is the bytes of both; 0: more must
// come, -1: it is no such number.
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

// ParseInt reads a whole number as commands take it: an optional minus and digits, no zeros before
// others, within 64 bits.
func ParseInt(b []byte) (n int64, ok bool) {
	digits := b
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		digits = b[1:]
	}
	u, ok := ParseUint(digits)
	switch {
	case !ok, negative && (u == 0 || u > 1<<63), !negative && u > 1<<63-1:
		return 0, false
	case negative:
		return -int64(u), true
	}
	return int64(u), true
}

// ParseUint is ParseInt of numbers from 0 on.
func ParseUint(b []byte) (n uint64, ok bool) {
	if len(b) == 0 || len(b) > maxDigits || b[0] == '0' && len(b) > 1 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		digit := uint64(c - '0')
		if n > (1<<64-1-digit)/10 {
			return 0, false
		}
		n = n*10 + digit
	}
	return n, true
}
