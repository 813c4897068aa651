package resp

import (
	"errors"
	"math"

	"github.com/weir-counter/weir/internal/engine/counters"
)

// This file has the commands of Redis from which clients build limits per fixed window: INCR, SET, EXPIRE and others,
// on counters that expire (counters.go).
//
// Invariants. A command on an existing counter allocates nothing. A command with several keys is one atomic step only
// while the session holds the shards of its keys, as transactions and scripts do.

// errWrongType is the error of a command on numbers if a key holds a log.
var errWrongType = NewReplyError("WRONGTYPE", "Operation against a key holding the wrong kind of value")

// CounterFailure converts an error of a counter to Redis's error.
func CounterFailure(err error) error {
	switch {
	case errors.Is(err, counters.ErrOverflow):
		return ErrOverflow
	case errors.Is(err, counters.ErrType):
		return errWrongType
	case errors.Is(err, counters.ErrLogFull):
		return NewReplyError("ERR", err.Error()+": use the command ALLOW for such limits")
	}
	return NewReplyError("OOM", err.Error()+": start the server with a larger --limit-memory, or let counters expire sooner")
}

func (s *session) incr(args [][]byte) error { return s.add(args[1], 1) }

func (s *session) decr(args [][]byte) error { return s.add(args[1], -1) }

func (s *session) incrBy(args [][]byte) error {
	by, err := ArgumentInt(args[2])
	if err != nil {
		return err
	}
	return s.add(args[1], by)
}

func (s *session) decrBy(args [][]byte) error {
	by, err := ArgumentInt(args[2])
	switch {
	case err != nil:
		return err
	case by == math.MinInt64:
		return NewReplyError("ERR", "decrement would overflow")
	}
	return s.add(args[1], -by)
}

func (s *session) add(key []byte, by int64) error {
	value, err := s.counters.Add(s.millis, key, by)
	if err != nil {
		return CounterFailure(err)
	}
	if err := s.countHits(key, by); err != nil {
		_, _ = s.counters.Add(s.millis, key, -by)
		return err
	}
	s.out.Int(value)
	return nil
}

// expire is EXPIRE and the like: the time is in units of so many milliseconds, from now or from the Unix epoch.
func expire(unit int64, fromEpoch bool) func(*session, [][]byte) error {
	return func(s *session, args [][]byte) error {
		only, err := readExpireIf(args[3:])
		if err != nil {
			return err
		}
		from := s.millis
		if fromEpoch {
			from = 0
		}
		at, err := ArgumentMoment(args[2], unit, from)
		if err != nil {
			return err
		}
		s.writeBool(s.counters.Expire(s.millis, args[1], max(at, 1), only)) // 0 would be never
		return nil
	}
}

// readExpireIf reads the conditions of EXPIRE. Each may be repeated.
func readExpireIf(args [][]byte) (only counters.Condition, err error) {
	for _, arg := range args {
		switch {
		case ArgumentIs(arg, "NX"):
			only |= counters.Absent
		case ArgumentIs(arg, "XX"):
			only |= counters.Present
		case ArgumentIs(arg, "GT"):
			only |= counters.Later
		case ArgumentIs(arg, "LT"):
			only |= counters.Earlier
		default:
			return only, NewReplyError("ERR", "Unsupported option "+ClipArgument(arg))
		}
	}
	switch {
	case only.Has(counters.Absent) && only != counters.Absent:
		return only, NewReplyError("ERR", "NX and XX, GT or LT options at the same time are not compatible")
	case only.Has(counters.Later) && only.Has(counters.Earlier):
		return only, NewReplyError("ERR", "GT and LT options at the same time are not compatible")
	}
	return only, nil
}

// persist is PERSIST: 1 if the counter would have expired.
func (s *session) persist(args [][]byte) error {
	s.writeBool(s.counters.Expire(s.millis, args[1], 0, counters.Present))
	return nil
}

// timeLeft is TTL and PTTL: how many units, of so many milliseconds, are left; -2: no counter; -1: it never
// expires. It rounds to the nearest, as Redis does.
func timeLeft(unit int64) func(*session, [][]byte) error {
	return func(s *session, args [][]byte) error {
		left := s.millisLeft(s.counters.Get(s.millis, args[1]))
		if left > 0 {
			left = (left + unit/2) / unit
		}
		s.out.Int(left)
		return nil
	}
}
