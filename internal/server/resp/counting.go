package resp

import (
	"errors"
	"math"
	"strconv"

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

// This file is the commands that read and set counters.

func (s *session) get(args [][]byte) error {
	c, ok := s.counters.Get(s.millis, args[1])
	return s.writeValue(c, ok)
}

// mget is MGET: null for a key that holds no number.
func (s *session) mget(args [][]byte) error {
	s.out.Array(len(args) - 1)
	for _, key := range args[1:] {
		if c, ok := s.counters.Get(s.millis, key); s.writeValue(c, ok) != nil {
			s.out.Null()
		}
	}
	return nil
}

// writeValue writes what a counter was, null if there was none, as Redis writes values. After an error nothing is written.
func (s *session) writeValue(c counters.Counter, ok bool) error {
	switch {
	case !ok:
		s.out.Null()
	case c.Log != nil:
		return errWrongType
	default:
		var digits [20]byte
		s.out.BulkBytes(strconv.AppendInt(digits[:0], c.Value, 10))
	}
	return nil
}

func (s *session) writeBool(b bool) { s.out.Int(int64(bit(b))) }

func (s *session) getDel(args [][]byte) error {
	defer s.counters.HoldKey(args[1])()
	c, ok := s.counters.Get(s.millis, args[1])
	if err := s.writeValue(c, ok); err != nil {
		return err
	}
	s.counters.Remove(s.millis, args[1])
	return nil
}

func (s *session) getEx(args [][]byte) error {
	var life Lifetime
	var wrong error // of the number: as in Redis, no fault where there is no counter
	if rest := args[2:]; len(rest) > 0 {
		var known bool
		known, wrong = life.Read(rest[0], rest[1:], s.millis)
		switch {
		case errors.Is(wrong, ErrSyntax):
			return wrong
		case known && len(rest) == 2:
		case !known && len(rest) == 1 && ArgumentIs(rest[0], "PERSIST"):
			life.Said = true
		default:
			return ErrSyntax
		}
	}
	defer s.counters.HoldKey(args[1])()
	c, ok := s.counters.Get(s.millis, args[1])
	if ok && wrong != nil {
		return wrong
	}
	if err := s.writeValue(c, ok); err != nil {
		return err
	}
	if life.Said {
		s.counters.Expire(s.millis, args[1], life.At, counters.Always)
	}
	return nil
}

// kind is TYPE, in words of Redis.
func (s *session) kind(args [][]byte) error {
	c, ok := s.counters.Get(s.millis, args[1])
	if !ok && s.server.service.HasIDs(ArgumentView(args[1])) {
		s.out.Status("string") // as in Redis
		return nil
	}
	s.out.Status(kindOf(&c, ok))
	return nil
}

func kindOf(c *counters.Counter, ok bool) string {
	switch {
	case !ok:
		return "none"
	case c.Log != nil:
		return "zset"
	}
	return "string"
}

func (s *session) exists(args [][]byte) error {
	n := 0
	for _, key := range args[1:] {
		if _, ok := s.counters.Get(s.millis, key); ok || s.server.service.HasIDs(ArgumentView(key)) {
			n++
		}
	}
	s.out.Int(int64(n))
	return nil
}

// set is SET of a whole number.
func (s *session) set(args [][]byte) error {
	to, err := readValue(args[2])
	if err != nil {
		return err
	}
	var life Lifetime
	get := false
	for rest := args[3:]; len(rest) > 0; rest = rest[1:] {
		known, err := life.Read(rest[0], rest[1:], s.millis)
		switch option := rest[0]; {
		case err != nil:
			return err
		case known:
			rest = rest[1:]
		case ArgumentIs(option, "KEEPTTL"):
			to.Keep = true
		case ArgumentIs(option, "GET"):
			get = true
		case ArgumentIs(option, "NX") && !to.OnlyIf.Has(counters.Present):
			to.OnlyIf = counters.Absent
		case ArgumentIs(option, "XX") && !to.OnlyIf.Has(counters.Absent):
			to.OnlyIf = counters.Present
		default:
			return ErrSyntax
		}
	}
	if life.Said && to.Keep {
		return ErrSyntax
	}
	to.Expires = life.At
	if get {
		return s.swap(args[1], to)
	}
	done, err := s.put(args[1], to)
	switch {
	case err != nil:
		return err
	case done:
		s.out.Status("OK")
	default:
		s.out.Null()
	}
	return nil
}

// readValue reads what a counter is set to: counters hold whole numbers, and nothing else.
func readValue(arg []byte) (to counters.Setting, err error) {
	value, ok := ParseInt(arg)
	if !ok {
		return to, NewReplyError("ERR", "value is not an integer or out of range: Weir's counters hold whole numbers alone")
	}
	to.Value = value
	return to, nil
}

// put sets a counter.
func (s *session) put(key []byte, to counters.Setting) (done bool, err error) {
	if _, _, done, err = s.counters.Set(s.millis, key, to); err != nil {
		return false, CounterFailure(err)
	}
	return done, nil
}

// swap sets a counter, and writes what it was.
func (s *session) swap(key []byte, to counters.Setting) error {
	defer s.counters.HoldKey(key)()
	if c, _ := s.counters.Get(s.millis, key); c.Log != nil {
		return errWrongType
	}
	before, existed, _, err := s.counters.Set(s.millis, key, to)
	if err != nil {
		return CounterFailure(err)
	}
	return s.writeValue(before, existed)
}

func (s *session) getSet(args [][]byte) error {
	to, err := readValue(args[2])
	if err != nil {
		return err
	}
	return s.swap(args[1], to)
}

// setNX is SETNX: 1 if the counter is new.
func (s *session) setNX(args [][]byte) error {
	to, err := readValue(args[2])
	if err != nil {
		return err
	}
	to.OnlyIf = counters.Absent
	done, err := s.put(args[1], to)
	return s.number(uint64(bit(done)), err)
}

// setFor is SETEX and PSETEX: args[2] is for how long, in a unit.
func setFor(unit string) func(*session, [][]byte) error {
	return func(s *session, args [][]byte) error {
		to, err := readValue(args[3])
		if err != nil {
			return err
		}
		var life Lifetime
		if _, err := life.Read([]byte(unit), args[2:3], s.millis); err != nil {
			return err
		}
		to.Expires = life.At
		if _, err := s.put(args[1], to); err != nil {
			return err
		}
		return s.ok()
	}
}
