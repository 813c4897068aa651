package counting

import (
	"github.com/weir-counter/weir/resp/argument"
	"github.com/weir-counter/weir/resp/counters"
)

func (s *Session) expire(args [][]byte) error    { return s.expires(args, 1000, s.Millis) }
func (s *Session) pexpire(args [][]byte) error   { return s.expires(args, 1, s.Millis) }
func (s *Session) expireAt(args [][]byte) error  { return s.expires(args, 1000, 0) }
func (s *Session) pexpireAt(args [][]byte) error { return s.expires(args, 1, 0) }

// expires says when a counter expires: args[2] units of so many milliseconds from a beginning.
func (s *Session) expires(args [][]byte, unit, from int64) error {
	at, err := argument.Moment(args[2], unit, from)
	if err != nil {
		return err
	}
	only := counters.Always
	for _, arg := range args[3:] {
		condition, known := expireIf(arg)
		if !known || only != counters.Always {
			return argument.ErrSyntax
		}
		only = condition
	}
	if s.Counters.Expire(s.Millis, args[1], max(at, 1), only) { // 0 would be never
		s.Out.Int(1)
	} else {
		s.Out.Int(0)
	}
	return nil
}

func expireIf(arg []byte) (only counters.If, known bool) {
	switch {
	case argument.Is(arg, "NX"):
		return counters.Absent, true
	case argument.Is(arg, "XX"):
		return counters.Present, true
	case argument.Is(arg, "GT"):
		return counters.Later, true
	case argument.Is(arg, "LT"):
		return counters.Earlier, true
	}
	return only, false
}

func (s *Session) ttl(args [][]byte) error  { return s.timeLeft(args[1], 1000) }
func (s *Session) pttl(args [][]byte) error { return s.timeLeft(args[1], 1) }

// timeLeft writes how many units, of so many milliseconds, are left: -2, no counter; -1, it never
// expires. It rounds to the nearest, as Redis does.
func (s *Session) timeLeft(key []byte, unit int64) error {
	c, ok := s.Counters.Get(s.Millis, key)
	switch {
	case !ok:
		s.Out.Int(-2)
	case c.Expires == 0:
		s.Out.Int(-1)
	default:
		s.Out.Int((c.Expires - s.Millis + unit/2) / unit)
	}
	return nil
}
