package units

import "strconv"

// Grouped writes 1234567 as 1,234,567.
func Grouped(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Plural writes a number of things: 1 hit, 2 hits.
func Plural[T int | uint64](n T, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return Grouped(uint64(n)) + " " + word + "s"
}
