package counting

import (
	"math"

	"github.com/weir-counter/weir/resp/argument"
	"github.com/weir-counter/weir/resp/counters"
)

// increx is INCREX of Redis 8.8 for whole numbers: the reply is the new value and what was added.
func (s *Session) increx(args [][]byte) error {
	if err := CheckKey(args[1]); err != nil {
		return err
	}
	i := counters.Increment{By: 1, Lower: math.MinInt64, Upper: math.MaxInt64}
	var life argument.Lifetime
	persist := false
	for rest := args[2:]; len(rest) > 0; rest = rest[1:] {
		known, err := life.Read(rest[0], rest[1:], s.Millis)
		if err != nil {
			return err
		}
		if known {
			rest = rest[1:]
			continue
		}
		switch option := rest[0]; {
		case argument.Is(option, "SATURATE"):
			i.Saturate = true
		case argument.Is(option, "PERSIST"):
			persist = true
		case argument.Is(option, "ENX"):
			i.OnlyIfNone = true
		case argument.Is(option, "BYFLOAT"):
			return argument.Fail("ERR", "BYFLOAT is not taken: Weir's counters hold whole numbers alone")
		default:
			number := bound(&i, option)
			if number == nil || len(rest) == 1 {
				return argument.ErrSyntax
			}
			if *number, err = argument.Int(rest[1]); err != nil {
				return err
			}
			rest = rest[1:]
		}
	}
	if persist && (life.Said || i.OnlyIfNone) || i.OnlyIfNone && !life.Said {
		return argument.ErrSyntax
	}
	if i.Lower > i.Upper {
		return argument.Fail("ERR", "LBOUND can't be greater than UBOUND")
	}
	i.SetExpires, i.Expires = life.Said || persist, life.At
	value, applied, err := s.Counters.Increase(s.Millis, args[1], i)
	if err != nil {
		return Failure(err)
	}
	s.Out.Array(2)
	s.Out.Int(value)
	s.Out.Int(applied)
	return nil
}

// bound is the number of an increment that an option says; nil: none.
func bound(i *counters.Increment, option []byte) *int64 {
	switch {
	case argument.Is(option, "BYINT"):
		return &i.By
	case argument.Is(option, "LBOUND"):
		return &i.Lower
	case argument.Is(option, "UBOUND"):
		return &i.Upper
	}
	return nil
}
