package resp

// weirCommands are Weir's own, and redis-cell's.
func weirCommands() []*command {
	const group = "weir"
	return []*command{
		{
			name: "hit", syntax: "key [n] [AT time]", summary: "Counts n hits of a key (1), now or at a time.", group: group,
			arity: -2, first: 1, last: 1, step: 1, flags: writes, run: (*session).hit,
		},
		{
			name: "mhit", syntax: "key n [key n ...]", summary: "Counts hits of several keys, now.", group: group,
			arity: -3, first: 1, last: -1, step: 2, flags: writes, run: (*session).mhit,
		},
		{
			name: "count", syntax: "key window [window ...] [AT time] [FRESH duration] [SCOPE node|region|global] [BY region]", summary: "Says how many hits a key has in rolling windows.", group: group,
			arity: -3, first: 1, last: 1, step: 1, flags: waits, run: (*session).count,
		},
		{
			name: "rate", syntax: "key window [window ...] [AT time] [FRESH duration] [SCOPE node|region|global] [BY region]", summary: "Says how many hits per second a key has in rolling windows.", group: group,
			arity: -3, first: 1, last: 1, step: 1, flags: waits, run: (*session).rate,
		},
		{
			name: "series", syntax: "key step [FROM time] [TO time] [FRESH duration] [SCOPE node|region|global]", summary: "Lists the hits of a key in adjoining windows, of the last hour by default.", group: group,
			arity: -3, first: 1, last: 1, step: 1, flags: waits, run: (*session).series,
		},
		{
			name: "top", syntax: "window n [PREFIX text] [AT time] [FRESH duration] [SCOPE node|region|global]", summary: "Lists the n keys with the most hits in a rolling window.", group: group,
			arity: -3, flags: waits, run: (*session).top,
		},
		{
			name: "allow", syntax: allowSyntax, summary: "Asks whether a request may pass its limits, and takes what it asks for: all or none.", group: group,
			arity: -2, first: 1, last: 1, step: 1, flags: writes | waits, run: (*session).allow,
		},
		{
			name: "peek", syntax: allowSyntax, summary: "Asks what ALLOW would say, and takes nothing.", group: group,
			arity: -2, first: 1, last: 1, step: 1, flags: waits, run: (*session).peek,
		},
		{
			name: "refund", syntax: allowSyntax + " [TAKEN time]", summary: "Gives back what ALLOW took, for the same arguments.", group: group,
			arity: -2, first: 1, last: 1, step: 1, flags: writes | waits, run: (*session).refund,
		},
		{
			name: "reserve", syntax: allowSyntax + " [TTL duration] [ID id] [UNSETTLED used|returned]", summary: "Takes as ALLOW does, to be settled later.", group: group,
			arity: -2, first: 1, last: 1, step: 1, flags: writes | waits, run: (*session).reserveAdmissions,
		},
		{
			name: "settle", syntax: "id used [DEBT]", summary: "Says how much of a reservation was used: the rest is given back.", group: group,
			arity: -3, flags: writes | waits, run: (*session).settleReservation,
		},
		{
			name: "grant", syntax: "limit key n duration", summary: "Gives a key n admissions beside a limit, to be used within a time; n of 0 takes them back.", group: group,
			arity: -4, first: 2, last: 2, step: 1, flags: writes | waits, run: (*session).grant,
		},
		{
			name: "ban", syntax: "limit key duration", summary: "Has a key denied for a time, whatever it has used.", group: group,
			arity: 4, first: 2, last: 2, step: 1, flags: writes | waits, run: (*session).ban,
		},
		{
			name: "unban", syntax: "limit key", summary: "Lifts the ban of a key.", group: group,
			arity: 3, first: 2, last: 2, step: 1, flags: writes | waits, run: (*session).unban,
		},
		{
			name: "bans", syntax: "[n]", summary: "Lists the keys that are banned, 100 by default.", group: group,
			arity: -1, flags: waits, run: (*session).bans,
		},
		{
			name: "permit", syntax: "key [NAME limit]", summary: "Takes a permit to be one of so many at once.", group: group,
			arity: -2, first: 1, last: 1, step: 1, flags: writes, run: (*session).takePermit,
		},
		{
			name: "heartbeat", syntax: "id", summary: "Keeps a permit for its ttl more.", group: group,
			arity: 2, flags: writes, run: (*session).heartbeat,
		},
		{
			name: "release", syntax: "id", summary: "Gives a permit back.", group: group,
			arity: 2, flags: writes, run: (*session).release,
		},
		{
			name: "cl.throttle", syntax: "key max_burst count period_seconds [quantity]", summary: "Takes from a token bucket (GCRA), as redis-cell does.", group: group,
			arity: -5, first: 1, last: 1, step: 1, flags: writes | waits, run: (*session).throttle,
		},
		{
			name: "del", syntax: "key [key ...]", summary: "Deletes keys: their hits on all nodes, and their counters.", group: group,
			arity: -2, first: 1, last: -1, step: 1, flags: writes | waits, run: (*session).del,
		},
	}
}

const allowSyntax = "key [key ...] [NAME limit] [LIMIT n PER duration [BURST n] [ALGORITHM window|fixed|gcra]] [COST n] [COST name=n ...]"
