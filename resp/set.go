package resp

import (
	"github.com/weir-counter/weir/resp/counters"
	"github.com/weir-counter/weir/resp/protocol"
)

// set is SET of a whole number: counters hold nothing else.
func (s *session) set(args [][]byte) error {
	if err := checkCounterKey(args[1]); err != nil {
		return err
	}
	value, ok := protocol.ParseInt(args[2])
	if !ok {
		return &replyError{"ERR", "value is not an integer or out of range: Weir's counters hold whole numbers alone"}
	}
	to := counters.Setting{Counter: counters.Counter{Value: value}}
	var life lifetime
	get := false
	for rest := args[3:]; len(rest) > 0; rest = rest[1:] {
		known, err := life.read(rest[0], rest[1:], s.millis)
		switch option := rest[0]; {
		case err != nil:
			return err
		case known:
			rest = rest[1:]
		case is(option, "KEEPTTL"):
			to.Keep = true
		case is(option, "GET"):
			get = true
		case is(option, "NX") && to.OnlyIf == counters.Always:
			to.OnlyIf = counters.Absent
		case is(option, "XX") && to.OnlyIf == counters.Always:
			to.OnlyIf = counters.Present
		default:
			return errSyntax
		}
	}
	if life.said && to.Keep {
		return errSyntax
	}
	to.Expires = life.at
	before, existed, done, err := s.counters.Set(s.millis, args[1], to)
	switch {
	case err != nil:
		return counterError(err)
	case get && existed:
		s.writeText(before.Value)
	case get || !done:
		s.out.Null()
	default:
		s.out.Status("OK")
	}
	return nil
}
