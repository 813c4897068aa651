package resp

import (
	"errors"
	"math"
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
	expire := "[NX | XX] [GT | LT]"
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
		key(CounterCommand{Name: "setnx", Syntax: "key number", Summary: "Sets a counter that is not there.", Group: group, Arity: 3, Writes: true, Run: (*CounterSession).setNX}),
		key(CounterCommand{Name: "setex", Syntax: "key seconds number", Summary: "Sets a counter that expires after so many seconds.", Group: group, Arity: 4, Writes: true, Run: (*CounterSession).setEX}),
		key(CounterCommand{Name: "psetex", Syntax: "key milliseconds number", Summary: "Sets a counter that expires after so many milliseconds.", Group: group, Arity: 4, Writes: true, Run: (*CounterSession).psetEX}),
		key(CounterCommand{Name: "getset", Syntax: "key number", Summary: "Sets a counter, and says what it was.", Group: group, Arity: 3, Writes: true, Run: (*CounterSession).getSet}),
		key(CounterCommand{Name: "getdel", Syntax: "key", Summary: "Removes a counter, and says what it was.", Group: group, Arity: 2, Writes: true, Run: (*CounterSession).getDel}),
		key(CounterCommand{Name: "getex", Syntax: "key [EX s | PX ms | EXAT s | PXAT ms | PERSIST]", Summary: "Says what a counter is, and when it expires from now on.", Group: group, Arity: -2, Writes: true, Run: (*CounterSession).getEx}),
		key(CounterCommand{Name: "type", Syntax: "key", Summary: "Says whether a key holds a number (string) or a log of times (zset).", Group: "generic", Arity: 2, Run: (*CounterSession).kind}),
		key(CounterCommand{Name: "persist", Syntax: "key", Summary: "Has a counter never expire.", Group: "generic", Arity: 2, Writes: true, Run: (*CounterSession).persist}),
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
	Millis   int64 // now, in milliseconds of the listener's clock
	Out      *Writer
}

// errWrongType is the error of a command on numbers where a key holds a log.
var errWrongType = NewReplyError("WRONGTYPE", "Operation against a key holding the wrong kind of value")

// CounterFailure is an error of package counters, as Redis has it.
func CounterFailure(err error) error {
	switch {
	case errors.Is(err, ErrCounterOverflow):
		return ErrOverflow
	case errors.Is(err, ErrCounterType):
		return errWrongType
	case errors.Is(err, errLogFull):
		return NewReplyError("ERR", err.Error()+": use the command ALLOW for such limits")
	}
	return NewReplyError("OOM", err.Error()+": start the server with a larger --resp-counters, or let counters expire sooner")
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
	value, err := s.Counters.Add(s.Millis, key, by)
	if err != nil {
		return CounterFailure(err)
	}
	s.Out.Int(value)
	return nil
}

// increx is INCREX of Redis 8.8 for whole numbers: the reply is the new value and what was added.
func (s *CounterSession) increx(args [][]byte) error {
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
