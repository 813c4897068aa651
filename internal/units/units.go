// Package units reads the durations, times and sizes that people write, so
// that the command line and every protocol take the same spellings.
package units

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// day, week and year are exact: durations here never follow a calendar.
const (
	day  = 24 * time.Hour
	week = 7 * day
	year = 365 * day
)

// durationUnits is ordered from the longest unit to the shortest; ParseDuration
// relies on that to insist on falling units.
var durationUnits = []struct {
	name  string
	width time.Duration
}{
	{"y", year},
	{"w", week},
	{"d", day},
	{"h", time.Hour},
	{"m", time.Minute},
	{"s", time.Second},
	{"ms", time.Millisecond},
}

// ParseDuration reads a duration that is not negative: numbers with the units y, w, d, h, m, s or ms, largest first
// (90s, 5m, 7d, 1h30m, 1.5h), or a plain number of seconds (300, 0.5). A year is 365 days, a week 7, and a day is 24
// hours. Digits below one nanosecond are cut off. The longest duration is about 292 years.
func ParseDuration(s string) (time.Duration, error) {
	if d, ok := short(s); ok {
		return d, nil
	}
	var total time.Duration
	unit := 0 // units before this one are used up
	rest := s
	for {
		number, tail := cutNumber(rest)
		if number == "" {
			return 0, durationError(s)
		}
		name, next := cutLetters(tail)
		if name == "" && rest == s && tail == "" {
			name = "s" // a plain number of seconds
		}
		for unit < len(durationUnits) && durationUnits[unit].name != name {
			unit++
		}
		if unit == len(durationUnits) {
			return 0, durationError(s)
		}
		part, ok := scale(number, int64(durationUnits[unit].width))
		if !ok || part > math.MaxInt64-int64(total) {
			return 0, durationError(s)
		}
		total += time.Duration(part)
		unit++
		if next == "" {
			return total, nil
		}
		rest = next
	}
}

// short reads what most write, in a fraction of the time: up to four digits and one of the units w to s.
func short(s string) (d time.Duration, ok bool) {
	const digits = 4 // of any unit that fits
	last := len(s) - 1
	if last < 1 || last > digits {
		return 0, false
	}
	n := time.Duration(0)
	for i := range last {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + time.Duration(s[i]-'0')
	}
	switch s[last] {
	case 'w':
		return n * week, true
	case 'd':
		return n * day, true
	case 'h':
		return n * time.Hour, true
	case 'm':
		return n * time.Minute, true
	case 's':
		return n * time.Second, true
	}
	return 0, false
}

func durationError(s string) error {
	return fmt.Errorf("%.40q is not a duration: write 90s, 5m, 24h, 7d, 1w, 1y, 1h30m or a number of seconds", s)
}

// FormatDuration writes d in the units that ParseDuration reads, without the zero parts: 1h30m, 7d, 90s as 1m30s. Parts
// below a millisecond are cut off; a negative duration is written as 0s.
func FormatDuration(d time.Duration) string {
	var b strings.Builder
	for _, u := range durationUnits {
		if u.width == year || u.width == week && d%week != 0 {
			continue // 10d reads better than 1w3d, and 52w is no year
		}
		if n := d / u.width; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d -= n * u.width
		}
	}
	if b.Len() == 0 {
		return "0s"
	}
	return b.String()
}

// millisecondTimes is where a Unix time in seconds becomes implausible (the
// year 5138) and is almost surely one in milliseconds (of 1973 or later).
const millisecondTimes = 100_000_000_000

// ParseTime reads a point in time that is not before 1970: RFC 3339 (2026-01-31T12:00:00Z, with a fraction and any
// zone) or a number of Unix seconds (1769860800, 1769860800.25, 1.7698608e9). Digits below one nanosecond are cut off.
// It keeps no part of s, in errors neither.
func ParseTime(s string) (time.Time, error) {
	if number, rest := cutNumber(s); number != "" && rest == "" {
		return unixTime(s, number)
	}
	if strings.ContainsAny(s, "eE") {
		return scientificTime(s)
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Unix() < 0 {
		return time.Time{}, timeError(s)
	}
	return t, nil
}

func unixTime(s, number string) (time.Time, error) {
	whole, fraction, _ := strings.Cut(number, ".")
	seconds, ok := scale(whole, 1)
	if !ok {
		return time.Time{}, timeError(s)
	}
	if seconds >= millisecondTimes {
		return time.Time{}, fmt.Errorf("%.40q is too far in the future: Unix times are in seconds; divide milliseconds by 1000", s)
	}
	var nanos int64
	if fraction != "" {
		nanos, _ = scale("0."+fraction, int64(time.Second))
	}
	return time.Unix(seconds, nanos), nil
}

// scientificTime takes what some JSON writers make of a Unix time: 1.7698608E9.
func scientificTime(s string) (time.Time, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0 && f < millisecondTimes) {
		return time.Time{}, timeError(s)
	}
	seconds, fraction := math.Modf(f)
	return time.Unix(int64(seconds), int64(fraction*float64(time.Second))), nil
}

func timeError(s string) error {
	return fmt.Errorf("%.40q is not a time: write RFC 3339 like 2026-01-31T12:00:00Z, or Unix seconds like 1769860800", s)
}

// FormatUnix writes t in Unix seconds, with as many decimals as it has digits: 1769860800, 1769860800.25.
func FormatUnix(t time.Time) string {
	return string(AppendUnix(nil, t))
}

// AppendUnix appends what FormatUnix returns to b.
func AppendUnix(b []byte, t time.Time) []byte {
	seconds, nanos := t.Unix(), int64(t.Nanosecond())
	if seconds < 0 && nanos > 0 { // -1.5 s is stored as -2 s and half a second
		seconds, nanos = seconds+1, int64(time.Second)-nanos
		if seconds == 0 {
			b = append(b, '-')
		}
	}
	b = strconv.AppendInt(b, seconds, 10)
	if nanos == 0 {
		return b
	}
	// A leading 1 keeps the zeros after the point; it is then overwritten.
	point := len(b)
	b = strconv.AppendInt(b, int64(time.Second)+nanos, 10)
	b[point] = '.'
	for b[len(b)-1] == '0' {
		b = b[:len(b)-1]
	}
	return b
}

// The code below finds what somebody may have meant by a misspelt word.

// maxWord bounds the words that are compared, in bytes: no name here is longer.
const maxWord = 64

// DidYouMean is ", did you mean X?" if a word of known is spelled nearly like word, else nothing.
func DidYouMean(word string, known []string) string {
	if best := Nearest(word, known); best != "" {
		return ", did you mean " + best + "?"
	}
	return ""
}

// Nearest is the word of known that is nearest to word, of equal ones the first: one with few slips for its length, or
// one that word begins or ends too early. It is "" if there is none. Large letters are as small ones.
//
// Cost: O(len(word) * length of all known words).
func Nearest(word string, known []string) string {
	word = strings.ToLower(word)
	best, least := "", (len(word)+2)/3+1
	for _, k := range known {
		if d := slips(word, strings.ToLower(k)); d < least && d < len(k) {
			best, least = k, d
		}
	}
	if best != "" || len(word) <= 2 {
		return best
	}
	for _, k := range known {
		if strings.HasPrefix(strings.ToLower(k), word) {
			return k
		}
	}
	return ""
}

// slips is how many slips make b of a: a letter changed, added or left out, or two that
// stand next to each other swapped (optimal string alignment).
func slips(a, b string) int {
	if len(a) > maxWord || len(b) > maxWord {
		return maxWord
	}
	var rows [3][maxWord + 1]int
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

// sizeUnits maps the lower-case unit to its bytes. K, M and G alone are left
// out: half of the world reads them as 1000, the other half as 1024.
var sizeUnits = map[string]int64{
	"": 1, "b": 1,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}

// ParseSize reads a number of bytes: 512MiB, 2GiB, 1.5GB or a plain number. KiB, MiB, GiB and TiB are powers of 1024,
// kB, MB, GB and TB powers of 1000; case does not matter and one space may stand before the unit.
func ParseSize(s string) (int64, error) {
	number, rest := cutNumber(s)
	width, known := sizeUnits[strings.ToLower(strings.TrimPrefix(rest, " "))]
	if number == "" || !known || width == 1 && strings.Contains(number, ".") {
		return 0, sizeError(s)
	}
	size, ok := scale(number, width)
	if !ok {
		return 0, sizeError(s)
	}
	return size, nil
}

func sizeError(s string) error {
	return fmt.Errorf("%.40q is not a size: write 512MiB, 2GiB, 1GB or a whole number of bytes", s)
}

// FormatSize writes a number of bytes in the largest binary unit that leaves
// at least one, with up to one decimal: 512MiB, 1.5GiB, 900B.
func FormatSize(bytes int64) string {
	names := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	value, unit := float64(bytes), 0
	for value >= 1024 && unit < len(names)-1 {
		value /= 1024
		unit++
	}
	text := strconv.FormatFloat(value, 'f', 1, 64)
	return strings.TrimSuffix(text, ".0") + names[unit]
}

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

// scale returns number * unit, cut off to a whole, for a number that came from cutNumber; ok is false when the product
// does not fit. It works in integers: a float would lose the nanoseconds of a Unix time.
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
