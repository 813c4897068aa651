package argument

import "math"

// Moment reads a time of n units from a beginning, in milliseconds.
func Moment(arg []byte, unit, from int64) (int64, error) {
	n, err := Int(arg)
	if err != nil {
		return 0, err
	}
	if n > (math.MaxInt64-from)/unit || n < math.MinInt64/unit {
		return 0, ErrExpireTime
	}
	return n*unit + from, nil
}

// Lifetime is one of EX, PX, EXAT, PXAT and their number.
type Lifetime struct {
	Said bool
	At   int64 // milliseconds
}

// Read reads an option and its number, if it is one.
func (l *Lifetime) Read(option []byte, rest [][]byte, now int64) (known bool, err error) {
	unit, from := int64(1), int64(0)
	switch {
	case Is(option, "EX"):
		unit, from = 1000, now
	case Is(option, "PX"):
		from = now
	case Is(option, "EXAT"):
		unit = 1000
	case Is(option, "PXAT"):
	default:
		return false, nil
	}
	if l.Said || len(rest) == 0 {
		return true, ErrSyntax
	}
	l.Said = true
	n, err := Int(rest[0])
	if err != nil {
		return true, err
	}
	if n <= 0 {
		return true, ErrExpireTime
	}
	l.At, err = Moment(rest[0], unit, from)
	return true, err
}
