package resp

import (
	"math"

	"github.com/weir-counter/weir/resp/counters"
)

// increx is INCREX of Redis 8.8 for whole numbers: the reply is the new value and what was added.
func (s *session) increx(args [][]byte) error {
	if err := checkCounterKey(args[1]); err != nil {
		return err
	}
	i := counters.Increment{By: 1, Lower: math.MinInt64, Upper: math.MaxInt64}
	var life lifetime
	persist := false
	for rest := args[2:]; len(rest) > 0; rest = rest[1:] {
		known, err := life.read(rest[0], rest[1:], s.millis)
		if err != nil {
			return err
		}
		if known {
			rest = rest[1:]
			continue
		}
		switch option := rest[0]; {
		case is(option, "SATURATE"):
			i.Saturate = true
		case is(option, "PERSIST"):
			persist = true
		case is(option, "ENX"):
			i.OnlyIfNone = true
		case is(option, "BYFLOAT"):
			return &replyError{"ERR", "BYFLOAT is not taken: Weir's counters hold whole numbers alone"}
		default:
			number := bound(&i, option)
			if number == nil || len(rest) == 1 {
				return errSyntax
			}
			if *number, err = readInt(rest[1]); err != nil {
				return err
			}
			rest = rest[1:]
		}
	}
	if persist && (life.said || i.OnlyIfNone) || i.OnlyIfNone && !life.said {
		return errSyntax
	}
	if i.Lower > i.Upper {
		return &replyError{"ERR", "LBOUND can't be greater than UBOUND"}
	}
	i.SetExpires, i.Expires = life.said || persist, life.at
	value, applied, err := s.counters.Increase(s.millis, args[1], i)
	if err != nil {
		return counterError(err)
	}
	s.out.Array(2)
	s.out.Int(value)
	s.out.Int(applied)
	return nil
}

// bound is the number of an increment that an option says; nil: none.
func bound(i *counters.Increment, option []byte) *int64 {
	switch {
	case is(option, "BYINT"):
		return &i.By
	case is(option, "LBOUND"):
		return &i.Lower
	case is(option, "UBOUND"):
		return &i.Upper
	}
	return nil
}
