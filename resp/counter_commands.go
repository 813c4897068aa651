package resp

// counterCommands are those of Redis that clients build limits per fixed window from.
func counterCommands() []*command {
	const group = "string"
	key := func(c *command) *command {
		c.first, c.last, c.step = 1, 1, 1
		c.flags |= counter
		return c
	}
	expire := "[NX | XX | GT | LT]"
	return []*command{
		key(&command{name: "incr", syntax: "key", summary: "Adds 1 to a counter.", group: group, arity: 2, flags: writes, run: (*session).incr}),
		key(&command{name: "incrby", syntax: "key n", summary: "Adds n to a counter.", group: group, arity: 3, flags: writes, run: (*session).incrBy}),
		key(&command{name: "decr", syntax: "key", summary: "Takes 1 from a counter.", group: group, arity: 2, flags: writes, run: (*session).decr}),
		key(&command{name: "decrby", syntax: "key n", summary: "Takes n from a counter.", group: group, arity: 3, flags: writes, run: (*session).decrBy}),
		key(&command{
			name: "increx", syntax: "key [BYINT n] [LBOUND n] [UBOUND n] [SATURATE] [EX s | PX ms | EXAT s | PXAT ms | PERSIST] [ENX]",
			summary: "Adds to a counter within bounds, and says when it expires.", group: group, arity: -2, flags: writes, run: (*session).increx,
		}),
		key(&command{name: "get", syntax: "key", summary: "Says what a counter is.", group: group, arity: 2, run: (*session).get}),
		{name: "mget", syntax: "key [key ...]", summary: "Says what several counters are.", group: group, arity: -2, first: 1, last: -1, step: 1, flags: counter, run: (*session).mget},
		key(&command{
			name: "set", syntax: "key number [NX | XX] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]", summary: "Sets a counter.", group: group,
			arity: -3, flags: writes, run: (*session).set,
		}),
		{name: "exists", syntax: "key [key ...]", summary: "Says how many of the keys have a counter.", group: "generic", arity: -2, first: 1, last: -1, step: 1, flags: counter, run: (*session).exists},
		key(&command{name: "expire", syntax: "key seconds " + expire, summary: "Says after how many seconds a counter expires.", group: "generic", arity: -3, flags: writes, run: (*session).expire}),
		key(&command{name: "pexpire", syntax: "key milliseconds " + expire, summary: "Says after how many milliseconds a counter expires.", group: "generic", arity: -3, flags: writes, run: (*session).pexpire}),
		key(&command{name: "expireat", syntax: "key seconds " + expire, summary: "Says at which second of the Unix epoch a counter expires.", group: "generic", arity: -3, flags: writes, run: (*session).expireAt}),
		key(&command{name: "pexpireat", syntax: "key milliseconds " + expire, summary: "Says at which millisecond of the Unix epoch a counter expires.", group: "generic", arity: -3, flags: writes, run: (*session).pexpireAt}),
		key(&command{name: "ttl", syntax: "key", summary: "Says in how many seconds a counter expires.", group: "generic", arity: 2, run: (*session).ttl}),
		key(&command{name: "pttl", syntax: "key", summary: "Says in how many milliseconds a counter expires.", group: "generic", arity: 2, run: (*session).pttl}),
	}
}
