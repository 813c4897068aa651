package counting

// Command is one that the package knows.
type Command struct {
	Name    string // in lower case
	Syntax  string // of its arguments, for people
	Summary string
	Group   string

	// Arity is the arguments that it must have, its name among them; below 0: at least so many. First, Last and
	// Step say which are keys, as COMMAND does.
	Arity, First, Last, Step int

	Writes bool // it changes counters
	Run    func(s *Session, args [][]byte) error
}

// Commands are those of Redis that clients build limits per fixed window from.
func Commands() []Command {
	const group = "string"
	key := func(c Command) Command {
		c.First, c.Last, c.Step = 1, 1, 1
		return c
	}
	expire := "[NX | XX | GT | LT]"
	return []Command{
		key(Command{Name: "incr", Syntax: "key", Summary: "Adds 1 to a counter.", Group: group, Arity: 2, Writes: true, Run: (*Session).incr}),
		key(Command{Name: "incrby", Syntax: "key n", Summary: "Adds n to a counter.", Group: group, Arity: 3, Writes: true, Run: (*Session).incrBy}),
		key(Command{Name: "decr", Syntax: "key", Summary: "Takes 1 from a counter.", Group: group, Arity: 2, Writes: true, Run: (*Session).decr}),
		key(Command{Name: "decrby", Syntax: "key n", Summary: "Takes n from a counter.", Group: group, Arity: 3, Writes: true, Run: (*Session).decrBy}),
		key(Command{
			Name: "increx", Syntax: "key [BYINT n] [LBOUND n] [UBOUND n] [SATURATE] [EX s | PX ms | EXAT s | PXAT ms | PERSIST] [ENX]",
			Summary: "Adds to a counter within bounds, and says when it expires.", Group: group, Arity: -2, Writes: true, Run: (*Session).increx,
		}),
		key(Command{Name: "get", Syntax: "key", Summary: "Says what a counter is.", Group: group, Arity: 2, Run: (*Session).get}),
		{Name: "mget", Syntax: "key [key ...]", Summary: "Says what several counters are.", Group: group, Arity: -2, First: 1, Last: -1, Step: 1, Run: (*Session).mget},
		key(Command{
			Name: "set", Syntax: "key number [NX | XX] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]", Summary: "Sets a counter.", Group: group,
			Arity: -3, Writes: true, Run: (*Session).set,
		}),
		{Name: "exists", Syntax: "key [key ...]", Summary: "Says how many of the keys have a counter.", Group: "generic", Arity: -2, First: 1, Last: -1, Step: 1, Run: (*Session).exists},
		key(Command{Name: "expire", Syntax: "key seconds " + expire, Summary: "Says after how many seconds a counter expires.", Group: "generic", Arity: -3, Writes: true, Run: (*Session).expire}),
		key(Command{Name: "pexpire", Syntax: "key milliseconds " + expire, Summary: "Says after how many milliseconds a counter expires.", Group: "generic", Arity: -3, Writes: true, Run: (*Session).pexpire}),
		key(Command{Name: "expireat", Syntax: "key seconds " + expire, Summary: "Says at which second of the Unix epoch a counter expires.", Group: "generic", Arity: -3, Writes: true, Run: (*Session).expireAt}),
		key(Command{Name: "pexpireat", Syntax: "key milliseconds " + expire, Summary: "Says at which millisecond of the Unix epoch a counter expires.", Group: "generic", Arity: -3, Writes: true, Run: (*Session).pexpireAt}),
		key(Command{Name: "ttl", Syntax: "key", Summary: "Says in how many seconds a counter expires.", Group: "generic", Arity: 2, Run: (*Session).ttl}),
		key(Command{Name: "pttl", Syntax: "key", Summary: "Says in how many milliseconds a counter expires.", Group: "generic", Arity: 2, Run: (*Session).pttl}),
	}
}
