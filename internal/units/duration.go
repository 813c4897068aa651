// Package units reads the durations, times and sizes that people write, so
// that the command line and every protocol take the same spellings.
package units

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// day and week are exact: durations here never follow a calendar.
const (
	day  = 24 * time.Hour
	week = 7 * day
)

// durationUnits is ordered from the longest unit to the shortest; ParseDuration
// relies on that to insist on falling units.
var durationUnits = []struct {
	name  string
	width time.Duration
}{
	{"w", week},
	{"d", day},
	{"h", time.Hour},
	{"m", time.Minute},
	{"s", time.Second},
	{"ms", time.Millisecond},
}

// ParseDuration reads a duration that is not negative: numbers with the units
// w, d, h, m, s or ms, largest first (90s, 5m, 7d, 1h30m, 1.5h), or a plain
// number of seconds (300, 0.5). A week is 7 days and a day is 24 hours. Digits
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
	return fmt.Errorf("%.40q is not a duration: write 90s, 5m, 24h, 7d, 1w, 1h30m or a number of seconds", s)
}

// FormatDuration writes d in the units that ParseDuration reads, without the
// zero parts: 1h30m, 7d, 90s as 1m30s. Parts below a millisecond are cut off;
// a negative duration is written as 0s.
func FormatDuration(d time.Duration) string {
	var b strings.Builder
	for _, u := range durationUnits {
		if u.width == week && d%week != 0 {
			continue // 10d reads better than 1w3d
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
