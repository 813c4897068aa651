package resp

import (
	"errors"
	"strconv"
)

// This part is the commands that read and set counters.

// get is GET.
func (s *CounterSession) get(args [][]byte) error {
	c, ok := s.Counters.Get(s.Millis, args[1])
	return s.writeValue(c, ok)
}

// mget is MGET: null for a key that holds no number.
func (s *CounterSession) mget(args [][]byte) error {
	s.Out.Array(len(args) - 1)
	for _, key := range args[1:] {
		if c, ok := s.Counters.Get(s.Millis, key); s.writeValue(c, ok) != nil {
			s.Out.Null()
		}
	}
	return nil
}

// writeValue writes what a counter was, null if there was none, as Redis writes values. After an error nothing is written.
func (s *CounterSession) writeValue(c Counter, ok bool) error {
	switch {
	case !ok:
		s.Out.Null()
	case c.Log != nil:
		return errWrongType
	default:
		var digits [20]byte
		s.Out.BulkBytes(strconv.AppendInt(digits[:0], c.Value, 10))
	}
	return nil
}

func (s *CounterSession) writeBool(b bool) { s.Out.Int(int64(bit(b))) }

// getDel is GETDEL.
func (s *CounterSession) getDel(args [][]byte) error {
	defer s.Counters.holdKey(args[1])()
	c, ok := s.Counters.Get(s.Millis, args[1])
	if err := s.writeValue(c, ok); err != nil {
		return err
	}
	s.Counters.Remove(s.Millis, args[1])
	return nil
}

// getEx is GETEX.
func (s *CounterSession) getEx(args [][]byte) error {
	var life Lifetime
	var wrong error // of the number: as in Redis, no fault where there is no counter
	if rest := args[2:]; len(rest) > 0 {
		var known bool
		known, wrong = life.Read(rest[0], rest[1:], s.Millis)
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
	defer s.Counters.holdKey(args[1])()
	c, ok := s.Counters.Get(s.Millis, args[1])
	if ok && wrong != nil {
		return wrong
	}
	if err := s.writeValue(c, ok); err != nil {
		return err
	}
	if life.Said {
		s.Counters.Expire(s.Millis, args[1], life.At, Always)
	}
	return nil
}

// kind is TYPE, in words of Redis.
func (s *CounterSession) kind(args [][]byte) error {
	c, ok := s.Counters.Get(s.Millis, args[1])
	s.Out.Status(c.kind(ok))
	return nil
}

func (c *Counter) kind(ok bool) string {
	switch {
	case !ok:
		return "none"
	case c.Log != nil:
		return "zset"
	}
	return "string"
}

func (s *CounterSession) exists(args [][]byte) error {
	n := 0
	for _, key := range args[1:] {
		if _, ok := s.Counters.Get(s.Millis, key); ok {
			n++
		}
	}
	s.Out.Int(int64(n))
	return nil
}

// set is SET of a whole number.
func (s *CounterSession) set(args [][]byte) error {
	to, err := readValue(args[2])
	if err != nil {
		return err
	}
	var life Lifetime
	get := false
	for rest := args[3:]; len(rest) > 0; rest = rest[1:] {
		known, err := life.Read(rest[0], rest[1:], s.Millis)
		switch option := rest[0]; {
		case err != nil:
			return err
		case known:
			rest = rest[1:]
		case ArgumentIs(option, "KEEPTTL"):
			to.Keep = true
		case ArgumentIs(option, "GET"):
			get = true
		case ArgumentIs(option, "NX") && !to.OnlyIf.has(Present):
			to.OnlyIf = Absent
		case ArgumentIs(option, "XX") && !to.OnlyIf.has(Absent):
			to.OnlyIf = Present
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
		s.Out.Status("OK")
	default:
		s.Out.Null()
	}
	return nil
}

// readValue reads what a counter is set to: counters hold whole numbers, and nothing else.
func readValue(arg []byte) (to CounterSetting, err error) {
	value, ok := ParseInt(arg)
	if !ok {
		return to, NewReplyError("ERR", "value is not an integer or out of range: Weir's counters hold whole numbers alone")
	}
	to.Value = value
	return to, nil
}

// put sets a counter.
func (s *CounterSession) put(key []byte, to CounterSetting) (done bool, err error) {
	if _, _, done, err = s.Counters.Set(s.Millis, key, to); err != nil {
		return false, CounterFailure(err)
	}
	return done, nil
}

// swap sets a counter, and writes what it was.
func (s *CounterSession) swap(key []byte, to CounterSetting) error {
	defer s.Counters.holdKey(key)()
	if c, _ := s.Counters.Get(s.Millis, key); c.Log != nil {
		return errWrongType
	}
	before, existed, _, err := s.Counters.Set(s.Millis, key, to)
	if err != nil {
		return CounterFailure(err)
	}
	return s.writeValue(before, existed)
}

// getSet is GETSET.
func (s *CounterSession) getSet(args [][]byte) error {
	to, err := readValue(args[2])
	if err != nil {
		return err
	}
	return s.swap(args[1], to)
}

// setNX is SETNX: 1 if the counter is new.
func (s *CounterSession) setNX(args [][]byte) error {
	to, err := readValue(args[2])
	if err != nil {
		return err
	}
	to.OnlyIf = Absent
	done, err := s.put(args[1], to)
	if err != nil {
		return err
	}
	s.writeBool(done)
	return nil
}

func (s *CounterSession) setEX(args [][]byte) error  { return s.setFor("EX", args) }
func (s *CounterSession) psetEX(args [][]byte) error { return s.setFor("PX", args) }

// setFor is SETEX and PSETEX: args[2] is for how long, in a unit.
func (s *CounterSession) setFor(unit string, args [][]byte) error {
	to, err := readValue(args[3])
	if err != nil {
		return err
	}
	var life Lifetime
	if _, err := life.Read([]byte(unit), args[2:3], s.Millis); err != nil {
		return err
	}
	to.Expires = life.At
	if _, err := s.put(args[1], to); err != nil {
		return err
	}
	s.Out.Status("OK")
	return nil
}
