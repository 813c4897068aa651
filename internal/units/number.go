package units

import (
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// cutNumber splits a leading number, digits with at most one point between
// them, from s. The number is empty when s does not start with one.
func cutNumber(s string) (number, rest string) {
	i := digits(s, 0)
	if i == 0 {
		return "", s
	}
	if i < len(s) && s[i] == '.' {
		end := digits(s, i+1)
		if end == i+1 {
			return "", s // "1." is a slip, not a number
		}
		i = end
	}
	return s[:i], s[i:]
}

// digits returns the index after the run of digits that starts at i.
func digits(s string, i int) int {
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i
}

// cutLetters splits a leading run of ASCII letters from s.
func cutLetters(s string) (letters, rest string) {
	i := 0
	for i < len(s) && (s[i]|0x20) >= 'a' && (s[i]|0x20) <= 'z' {
		i++
	}
	return s[:i], s[i:]
}

// maxPlace bounds the digits after the point that count, 18 of them: enough for
// a nanosecond of a week, and the product with 10 still fits in 64 bits.
const maxPlace = 1e18

// scale returns number * unit, cut off to a whole, for a number that came from
// cutNumber; ok is false when the product does not fit. It works in integers:
// a float would lose the nanoseconds of a Unix time.
func scale(number string, unit int64) (product int64, ok bool) {
	i := 0
	var whole int64
	for ; i < len(number) && number[i] != '.'; i++ {
		digit := int64(number[i] - '0')
		if whole > (math.MaxInt64-digit)/10 {
			return 0, false
		}
		whole = whole*10 + digit
	}
	if whole > math.MaxInt64/unit {
		return 0, false
	}
	var fraction, place uint64 = 0, 1
	for i++; i < len(number) && place < maxPlace; i++ {
		fraction = fraction*10 + uint64(number[i]-'0')
		place *= 10
	}
	// fraction < place, so the quotient is below unit and Div64 cannot overflow.
	hi, lo := bits.Mul64(fraction, uint64(unit))
	part, _ := bits.Div64(hi, lo, place)
	if int64(part) > math.MaxInt64-whole*unit {
		return 0, false
	}
	return whole*unit + int64(part), true
}

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

// Excerpt is a text as messages show it: of a long one its beginning, at most 40 bytes.
func Excerpt(text string) string { return Clip(text, 40) }

// Clip is Excerpt with so many bytes at most.
func Clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
