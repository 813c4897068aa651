package resp

import (
	"math"

	"github.com/weir-counter/weir/resp/counters"
)

func (s *session) expire(args [][]byte) error    { return s.expires(args, 1000, s.millis) }
func (s *session) pexpire(args [][]byte) error   { return s.expires(args, 1, s.millis) }
func (s *session) expireAt(args [][]byte) error  { return s.expires(args, 1000, 0) }
func (s *session) pexpireAt(args [][]byte) error { return s.expires(args, 1, 0) }

// expires says when a counter expires: args[2] units of so many milliseconds from a beginning.
func (s *session) expires(args [][]byte, unit, from int64) error {
	at, err := moment(args[2], unit, from)
	if err != nil {
		return err
	}
	only := counters.Always
	for _, arg := range args[3:] {
		condition, known := expireIf(arg)
		if !known || only != counters.Always {
			return errSyntax
		}
		only = condition
	}
	if s.counters.Expire(s.millis, args[1], max(at, 1), only) { // 0 would be never
		s.out.Int(1)
	} else {
		s.out.Int(0)
	}
	return nil
}

func expireIf(arg []byte) (only counters.If, known bool) {
	switch {
	case is(arg, "NX"):
		return counters.Absent, true
	case is(arg, "XX"):
		return counters.Present, true
	case is(arg, "GT"):
		return counters.Later, true
	case is(arg, "LT"):
		return counters.Earlier, true
	}
	return only, false
}

// moment reads a time of n units from a beginning, in milliseconds.
func moment(arg []byte, unit, from int64) (int64, error) {
	n, err := readInt(arg)
	if err != nil {
		return 0, err
	}
	if n > (math.MaxInt64-from)/unit || n < math.MinInt64/unit {
		return 0, errExpireTime
	}
	return n*unit + from, nil
}

func (s *session) ttl(args [][]byte) error  { return s.timeLeft(args[1], 1000) }
func (s *session) pttl(args [][]byte) error { return s.timeLeft(args[1], 1) }

// timeLeft writes how many units, of so many milliseconds, are left: -2, no counter; -1, it never
// expires. It rounds to the nearest, as Redis does.
func (s *session) timeLeft(key []byte, unit int64) error {
	c, ok := s.counters.Get(s.millis, key)
	switch {
	case !ok:
		s.out.Int(-2)
	case c.Expires == 0:
		s.out.Int(-1)
	default:
		s.out.Int((c.Expires - s.millis + unit/2) / unit)
	}
	return nil
}

// lifetime is one of EX, PX, EXAT, PXAT and their number.
type lifetime struct {
	said bool
	at   int64 // milliseconds
}

// read reads an option and its number, if it is one.
func (l *lifetime) read(option []byte, rest [][]byte, now int64) (known bool, err error) {
	unit, from := int64(1), int64(0)
	switch {
	case is(option, "EX"):
		unit, from = 1000, now
	case is(option, "PX"):
		from = now
	case is(option, "EXAT"):
		unit = 1000
	case is(option, "PXAT"):
	default:
		return false, nil
	}
	if l.said || len(rest) == 0 {
		return true, errSyntax
	}
	l.said = true
	n, err := readInt(rest[0])
	if err != nil {
		return true, err
	}
	if n <= 0 {
		return true, errExpireTime
	}
	l.at, err = moment(rest[0], unit, from)
	return true, err
}
