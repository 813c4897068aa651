package resp

import (
	"errors"
	"math"
	"strconv"
)

// This part is the commands of Redis that clients build limits per fixed window from: INCR, SET, EXPIRE and others, on counters
// that expire, of package counters.
//
// Invariant: a command allocates nothing for a counter that is there. A command is one step only while the session holds the
// shards of its keys, or is alone with one key: transactions and scripts hold them.
//
// Neighbours: package resp has the connection, who may run what, and transactions; package argument reads arguments.

// CounterCommand is one that the package knows.
type CounterCommand struct {
	Name    string // in lower case
	Syntax  string // of its arguments, for people
	Summary string
	Group   string

	// Arity is the arguments that it must have, its name among them; below 0: at least so many. First, Last and
	// Step say which are keys, as COMMAND does.
	Arity, First, Last, Step int

	Writes bool // it changes counters
	Run    func(s *CounterSession, args [][]byte) error
}

// CounterCommands are those of Redis that clients build limits per fixed window from.
func CounterCommands() []CounterCommand {
	const group = "string"
	key := func(c CounterCommand) CounterCommand {
		c.First, c.Last, c.Step = 1, 1, 1
		return c
	}
	expire := "[NX | XX | GT | LT]"
	return []CounterCommand{
		key(CounterCommand{Name: "incr", Syntax: "key", Summary: "Adds 1 to a counter.", Group: group, Arity: 2, Writes: true, Run: (*CounterSession).incr}),
		key(CounterCommand{Name: "incrby", Syntax: "key n", Summary: "Adds n to a counter.", Group: group, Arity: 3, Writes: true, Run: (*CounterSession).incrBy}),
		key(CounterCommand{Name: "decr", Syntax: "key", Summary: "Takes 1 from a counter.", Group: group, Arity: 2, Writes: true, Run: (*CounterSession).decr}),
		key(CounterCommand{Name: "decrby", Syntax: "key n", Summary: "Takes n from a counter.", Group: group, Arity: 3, Writes: true, Run: (*CounterSession).decrBy}),
		key(CounterCommand{
			Name: "increx", Syntax: "key [BYINT n] [LBOUND n] [UBOUND n] [SATURATE] [EX s | PX ms | EXAT s | PXAT ms | PERSIST] [ENX]",
			Summary: "Adds to a counter within bounds, and says when it expires.", Group: group, Arity: -2, Writes: true, Run: (*CounterSession).increx,
		}),
		key(CounterCommand{Name: "get", Syntax: "key", Summary: "Says what a counter is.", Group: group, Arity: 2, Run: (*CounterSession).get}),
		{Name: "mget", Syntax: "key [key ...]", Summary: "Says what several counters are.", Group: group, Arity: -2, First: 1, Last: -1, Step: 1, Run: (*CounterSession).mget},
		key(CounterCommand{
			Name: "set", Syntax: "key number [NX | XX] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]", Summary: "Sets a counter.", Group: group,
			Arity: -3, Writes: true, Run: (*CounterSession).set,
		}),
		{Name: "exists", Syntax: "key [key ...]", Summary: "Says how many of the keys have a counter.", Group: "generic", Arity: -2, First: 1, Last: -1, Step: 1, Run: (*CounterSession).exists},
		key(CounterCommand{Name: "expire", Syntax: "key seconds " + expire, Summary: "Says after how many seconds a counter expires.", Group: "generic", Arity: -3, Writes: true, Run: (*CounterSession).expire}),
		key(CounterCommand{Name: "pexpire", Syntax: "key milliseconds " + expire, Summary: "Says after how many milliseconds a counter expires.", Group: "generic", Arity: -3, Writes: true, Run: (*CounterSession).pexpire}),
		key(CounterCommand{Name: "expireat", Syntax: "key seconds " + expire, Summary: "Says at which second of the Unix epoch a counter expires.", Group: "generic", Arity: -3, Writes: true, Run: (*CounterSession).expireAt}),
		key(CounterCommand{Name: "pexpireat", Syntax: "key milliseconds " + expire, Summary: "Says at which millisecond of the Unix epoch a counter expires.", Group: "generic", Arity: -3, Writes: true, Run: (*CounterSession).pexpireAt}),
		key(CounterCommand{Name: "ttl", Syntax: "key", Summary: "Says in how many seconds a counter expires.", Group: "generic", Arity: 2, Run: (*CounterSession).ttl}),
		key(CounterCommand{Name: "pttl", Syntax: "key", Summary: "Says in how many milliseconds a counter expires.", Group: "generic", Arity: 2, Run: (*CounterSession).pttl}),
	}
}

// CounterSession is one connection's use of counters. It belongs to the goroutine of the connection.
type CounterSession struct {
	Counters CounterView
	Millis   int64 // now, in milliseconds of the door's clock
	Out      *Writer
}

// maxCounterKey is the longest key of a counter, in bytes: that of a hit.
const maxCounterKey = 512

// CheckCounterKey refuses a key that is too long.
func CheckCounterKey(key []byte) error {
	if len(key) > maxCounterKey {
		return NewReplyError("ERR", "invalid_key: key of "+strconv.Itoa(len(key))+" bytes: must have at most 512")
	}
	return nil
}

// CounterFailure is an error of package counters, as Redis has it.
func CounterFailure(err error) error {
	if errors.Is(err, ErrCounterOverflow) {
		return ErrOverflow
	}
	return NewReplyError("OOM", err.Error()+": start the server with a larger --resp-counters, or let counters expire sooner")
}

func (s *CounterSession) expire(args [][]byte) error    { return s.expires(args, 1000, s.Millis) }
func (s *CounterSession) pexpire(args [][]byte) error   { return s.expires(args, 1, s.Millis) }
func (s *CounterSession) expireAt(args [][]byte) error  { return s.expires(args, 1000, 0) }
func (s *CounterSession) pexpireAt(args [][]byte) error { return s.expires(args, 1, 0) }

// expires says when a counter expires: args[2] units of so many milliseconds from a beginning.
func (s *CounterSession) expires(args [][]byte, unit, from int64) error {
	at, err := ArgumentMoment(args[2], unit, from)
	if err != nil {
		return err
	}
	only := Always
	for _, arg := range args[3:] {
		condition, known := expireIf(arg)
		if !known || only != Always {
			return ErrSyntax
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

func expireIf(arg []byte) (only SetCondition, known bool) {
	switch {
	case ArgumentIs(arg, "NX"):
		return Absent, true
	case ArgumentIs(arg, "XX"):
		return Present, true
	case ArgumentIs(arg, "GT"):
		return Later, true
	case ArgumentIs(arg, "LT"):
		return Earlier, true
	}
	return only, false
}

func (s *CounterSession) ttl(args [][]byte) error  { return s.timeLeft(args[1], 1000) }
func (s *CounterSession) pttl(args [][]byte) error { return s.timeLeft(args[1], 1) }

// timeLeft writes how many units, of so many milliseconds, are left: -2, no counter; -1, it never
// expires. It rounds to the nearest, as Redis does.
func (s *CounterSession) timeLeft(key []byte, unit int64) error {
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

func (s *CounterSession) incr(args [][]byte) error { return s.add(args[1], 1) }

func (s *CounterSession) decr(args [][]byte) error { return s.add(args[1], -1) }

func (s *CounterSession) incrBy(args [][]byte) error {
	by, err := ArgumentInt(args[2])
	if err != nil {
		return err
	}
	return s.add(args[1], by)
}

func (s *CounterSession) decrBy(args [][]byte) error {
	by, err := ArgumentInt(args[2])
	switch {
	case err != nil:
		return err
	case by == math.MinInt64:
		return NewReplyError("ERR", "decrement would overflow")
	}
	return s.add(args[1], -by)
}

func (s *CounterSession) add(key []byte, by int64) error {
	if err := CheckCounterKey(key); err != nil {
		return err
	}
	value, err := s.Counters.Add(s.Millis, key, by)
	if err != nil {
		return CounterFailure(err)
	}
	s.Out.Int(value)
	return nil
}

func (s *CounterSession) get(args [][]byte) error {
	s.writeCounter(args[1])
	return nil
}

func (s *CounterSession) mget(args [][]byte) error {
	s.Out.Array(len(args) - 1)
	for _, key := range args[1:] {
		s.writeCounter(key)
	}
	return nil
}

func (s *CounterSession) writeCounter(key []byte) {
	c, ok := s.Counters.Get(s.Millis, key)
	if !ok {
		s.Out.Null()
		return
	}
	s.writeText(c.Value)
}

// writeText writes a number as Redis writes values.
func (s *CounterSession) writeText(n int64) {
	var digits [20]byte
	s.Out.BulkBytes(strconv.AppendInt(digits[:0], n, 10))
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

// increx is INCREX of Redis 8.8 for whole numbers: the reply is the new value and what was added.
func (s *CounterSession) increx(args [][]byte) error {
	if err := CheckCounterKey(args[1]); err != nil {
		return err
	}
	i := Increment{By: 1, Lower: math.MinInt64, Upper: math.MaxInt64}
	var life Lifetime
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
		case ArgumentIs(option, "SATURATE"):
			i.Saturate = true
		case ArgumentIs(option, "PERSIST"):
			persist = true
		case ArgumentIs(option, "ENX"):
			i.OnlyIfNone = true
		case ArgumentIs(option, "BYFLOAT"):
			return NewReplyError("ERR", "BYFLOAT is not taken: Weir's counters hold whole numbers alone")
		default:
			number := bound(&i, option)
			if number == nil || len(rest) == 1 {
				return ErrSyntax
			}
			if *number, err = ArgumentInt(rest[1]); err != nil {
				return err
			}
			rest = rest[1:]
		}
	}
	if persist && (life.Said || i.OnlyIfNone) || i.OnlyIfNone && !life.Said {
		return ErrSyntax
	}
	if i.Lower > i.Upper {
		return NewReplyError("ERR", "LBOUND can't be greater than UBOUND")
	}
	i.SetExpires, i.Expires = life.Said || persist, life.At
	value, applied, err := s.Counters.Increase(s.Millis, args[1], i)
	if err != nil {
		return CounterFailure(err)
	}
	s.Out.Array(2)
	s.Out.Int(value)
	s.Out.Int(applied)
	return nil
}

// bound is the number of an increment that an option says; nil: none.
func bound(i *Increment, option []byte) *int64 {
	switch {
	case ArgumentIs(option, "BYINT"):
		return &i.By
	case ArgumentIs(option, "LBOUND"):
		return &i.Lower
	case ArgumentIs(option, "UBOUND"):
		return &i.Upper
	}
	return nil
}

// set is SET of a whole number: counters hold nothing else.
func (s *CounterSession) set(args [][]byte) error {
	if err := CheckCounterKey(args[1]); err != nil {
		return err
	}
	value, ok := ParseInt(args[2])
	if !ok {
		return NewReplyError("ERR", "value is not an integer or out of range: Weir's counters hold whole numbers alone")
	}
	to := CounterSetting{Counter: Counter{Value: value}}
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
		case ArgumentIs(option, "NX") && to.OnlyIf == Always:
			to.OnlyIf = Absent
		case ArgumentIs(option, "XX") && to.OnlyIf == Always:
			to.OnlyIf = Present
		default:
			return ErrSyntax
		}
	}
	if life.Said && to.Keep {
		return ErrSyntax
	}
	to.Expires = life.At
	before, existed, done, err := s.Counters.Set(s.Millis, args[1], to)
	switch {
	case err != nil:
		return CounterFailure(err)
	case get && existed:
		s.writeText(before.Value)
	case get || !done:
		s.Out.Null()
	default:
		s.Out.Status("OK")
	}
	return nil
}
