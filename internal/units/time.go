// Package units reads the durations, times and sizes that people write, so
// that the command line and every protocol take the same spellings.
package units

import (
	"fmt"
	"math"
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

// ParseDuration reads a duration that is not negative: numbers with the units
// y, w, d, h, m, s or ms, largest first (90s, 5m, 7d, 1h30m, 1.5h), or a plain
// number of seconds (300, 0.5). A year is 365 days, a week 7, and a day is 24 hours. Digits
// below one nanosecond are cut off. The longest duration is about 292 years.
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

// FormatDuration writes d in the units that ParseDuration reads, without the
// zero parts: 1h30m, 7d, 90s as 1m30s. Parts below a millisecond are cut off;
// a negative duration is written as 0s.
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

// ParseTime reads a point in time that is not before 1970: RFC 3339
// (2026-01-31T12:00:00Z, with a fraction and any zone) or a number of Unix
// seconds (1769860800, 1769860800.25, 1.7698608e9). Digits below one nanosecond are cut
// off. It keeps no part of s, in errors neither.
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

// FormatUnix writes t in Unix seconds, with as many decimals as it has digits:
// 1769860800, 1769860800.25.
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
