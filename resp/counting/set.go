package counting

import (
	"github.com/weir-counter/weir/resp/argument"
	"github.com/weir-counter/weir/resp/counters"
	"github.com/weir-counter/weir/resp/protocol"
)

// set is SET of a whole number: counters hold nothing else.
func (s *Session) set(args [][]byte) error {
	if err := CheckKey(args[1]); err != nil {
		return err
	}
	value, ok := protocol.ParseInt(args[2])
	if !ok {
		return argument.Fail("ERR", "value is not an integer or out of range: Weir's counters hold whole numbers alone")
	}
	to := counters.Setting{Counter: counters.Counter{Value: value}}
	var life argument.Lifetime
	get := false
	for rest := args[3:]; len(rest) > 0; rest = rest[1:] {
		known, err := life.Read(rest[0], rest[1:], s.Millis)
		switch option := rest[0]; {
		case err != nil:
			return err
		case known:
			rest = rest[1:]
		case argument.Is(option, "KEEPTTL"):
			to.Keep = true
		case argument.Is(option, "GET"):
			get = true
		case argument.Is(option, "NX") && to.OnlyIf == counters.Always:
			to.OnlyIf = counters.Absent
		case argument.Is(option, "XX") && to.OnlyIf == counters.Always:
			to.OnlyIf = counters.Present
		default:
			return argument.ErrSyntax
		}
	}
	if life.Said && to.Keep {
		return argument.ErrSyntax
	}
	to.Expires = life.At
	before, existed, done, err := s.Counters.Set(s.Millis, args[1], to)
	switch {
	case err != nil:
		return Failure(err)
	case get && existed:
		s.writeText(before.Value)
	case get || !done:
		s.Out.Null()
	default:
		s.Out.Status("OK")
	}
	return nil
}
