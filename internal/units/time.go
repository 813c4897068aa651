package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

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
