package replay

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
	"unsafe"

	"github.com/weir-counter/weir/internal/units"
)

// parseTimeText reads a time that was written as text: RFC 3339, a log time,
// or a number as parseEpoch takes it.
func parseTimeText(b []byte, clock *clfClock) (int64, error) {
	if len(b) == clfTimeLen {
		if at, ok := clock.parse(b); ok {
			return checkRange(at)
		}
	}
	if t, err := time.Parse(time.RFC3339, view(b)); err == nil {
		return checkRange(t.Unix())
	}
	return parseEpoch(b)
}

// parseEpoch reads a number of seconds since 1970, or of milliseconds,
// microseconds or nanoseconds: which one is told by its size, as seconds stay
// below 1e11 until the year 5138. A fraction is rounded down.
func parseEpoch(b []byte) (int64, error) {
	whole, ok := parseDecimal(b)
	if !ok {
		if len(bytes.Trim(b, "+-.0123456789eE")) != 0 { // no Inf, NaN or 0x1p4
			return 0, errBadTime
		}
		f, err := strconv.ParseFloat(view(b), 64)
		if err != nil {
			return 0, errBadTime
		}
		if f < 0 || f >= 1<<63 {
			return 0, errTimeRange
		}
		whole = uint64(f)
	}
	for unit := 0; whole >= 1e11; unit++ {
		if unit == 3 {
			return 0, errTimeRange
		}
		whole /= 1000
	}
	return checkRange(int64(whole))
}

// parseDecimal reads 123 and 123.456, without the fraction. A float would
// round 1700000000.99999999 up to the next second.
func parseDecimal(b []byte) (whole uint64, ok bool) {
	if i := bytes.IndexByte(b, '.'); i >= 0 {
		for _, c := range b[i+1:] {
			if !isDigit(c) {
				return 0, false
			}
		}
		b = b[:i]
	}
	return parseUint(b)
}

func checkRange(at int64) (int64, error) {
	if !inRange(at) {
		return 0, errTimeRange
	}
	return at, nil
}

func parseWeight(b []byte) (uint64, error) {
	n, ok := parseUint(b)
	if !ok || n > MaxWeight {
		return 0, errBadWeight
	}
	return n, nil
}

// parseUint reads up to 19 decimal digits, which cannot overflow.
func parseUint(b []byte) (n uint64, ok bool) {
	if len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	for _, c := range b {
		d := c - '0'
		if d > 9 {
			return 0, false
		}
		n = n*10 + uint64(d)
	}
	return n, true
}

// view gives b as a string without a copy, for calls that do not keep it.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// ParseTime reads a time as it may stand in a log or on a command line: like
// 10/Oct/2000:13:55:36 -0700, RFC 3339, or Unix seconds.
func ParseTime(s string) (time.Time, error) {
	var clock clfClock
	if len(s) == clfTimeLen {
		if at, ok := clock.parse([]byte(s)); ok {
			return time.Unix(at, 0), nil
		}
	}
	t, err := units.ParseTime(s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w, or a time as in a log like 10/Oct/2000:13:55:36 -0700", err)
	}
	return t, nil
}
