package resp

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/service/access"
)

// command is one that the listener knows.
type command struct {
	name    string // in lower case
	capital string // the same in capitals
	syntax  string // of its arguments, for people
	summary string
	group   string

	// arity is the arguments that it must have, its name among them; below 0: at least so
	// many. first, last and step say which are keys, as COMMAND does.
	arity, first, last, step int

	flags   flags
	deletes bool                                  // it is DEL
	need    access.Need                           // of a client; filled in by newCommands
	run     func(s *session, args [][]byte) error // writes the reply, or says why not

	calls atomic.Uint64
}

type flags uint8

const (
	writes    flags = 1 << iota
	counter         // it is one of package counting
	waits           // perhaps for other nodes: not in a transaction
	lengthy         // its reply is: not in a transaction
	immediate       // also in a transaction: it is not queued
	public          // also for a client that has not authenticated
	onData          // it is about hits, limits or counters
	onAll           // it is about all counters: a transaction holds them
)

func (f flags) has(one flags) bool { return f&one != 0 }

// commands are all of them. What is counted of them is for all sessions.
type commands struct {
	list   []*command
	byName map[string]*command // in capitals

	unknown atomic.Uint64
	failed  atomic.Uint64 // requests that were answered with an error
}

func newCommands() *commands {
	c := &commands{byName: map[string]*command{}}
	for _, group := range [][]*command{weirCommands(), counterCommands(), keyspaceCommands(), scriptCommands(), connectionCommands(), serverCommands()} {
		for _, one := range group {
			if one.group != connectionGroup && one.group != serverGroup && one.group != transactionGroup {
				one.flags |= onData
			}
			c.list = append(c.list, one)
			one.capital = strings.ToUpper(one.name)
			one.need = needOf(one)
			c.byName[one.capital] = one
		}
	}
	return c
}

// commandNeeds are what Weir's own commands need of a client, and those of others that not every identity may send.
var commandNeeds = map[string]access.Need{
	"hit": {Roles: []auth.Role{auth.Ingest}}, "mhit": {Roles: []auth.Role{auth.Ingest}},
	"count": readNeed, "rate": readNeed, "series": readNeed, "top": readNeed, "bans": readNeed,
	"allow": decideNeed, "peek": decideNeed, "refund": {Roles: []auth.Role{auth.Decide}, Action: "refund"}, "reserve": decideNeed, "settle": decideNeed, "cl.throttle": decideNeed,
	"permit": decideNeed, "heartbeat": decideNeed, "release": decideNeed, "eval": decideNeed, "evalsha": decideNeed,
	"reset": {Roles: []auth.Role{auth.Decide, auth.Admin}, Action: "reset limit"},
	"del":   {Roles: []auth.Role{auth.Admin}, Action: "delete key"}, "unlink": {Roles: []auth.Role{auth.Admin}, Action: "delete key"},
	"scan": decideNeed, "dbsize": allCounters, "flushdb": allCounters, "flushall": allCounters, "script": {},
	"info": {Roles: []auth.Role{auth.Read}, All: true},
}

var (
	readNeed   = access.Need{Roles: []auth.Role{auth.Read}}
	decideNeed = access.Need{Roles: []auth.Role{auth.Decide}}

	allCounters = access.Need{Roles: []auth.Role{auth.Decide}, All: true}
)

// needOf returns what a command needs. One for keys that is not in the table is for operators.
func needOf(c *command) access.Need {
	need, listed := commandNeeds[c.name]
	switch {
	case listed:
	case c.flags.has(counter):
		need = decideNeed
	case c.flags.has(onData):
		need = access.Need{Roles: []auth.Role{auth.Admin}, Action: c.name}
	}
	return need
}

// longestName bounds names of commands.
const longestName = 32

// find returns the command of a name in any case, or nil.
func (c *commands) find(name []byte) *command {
	var upper [longestName]byte
	if len(name) > len(upper) {
		return nil
	}
	for i, b := range name {
		if b >= 'a' && b <= 'z' {
			b -= 'a' - 'A'
		}
		upper[i] = b
	}
	return c.byName[string(upper[:len(name)])]
}

func (c *command) takes(args int) bool {
	if c.arity < 0 {
		return args >= -c.arity
	}
	return args == c.arity
}

// find is commands.find: most requests that come together are of one command, in capitals.
func (s *session) find(name []byte) *command {
	if s.ran != nil && string(name) == s.ran.capital {
		return s.ran
	}
	return s.server.commands.find(name)
}

// run answers one request.
func (s *session) run(args [][]byte) {
	c := s.find(args[0])
	if c == nil {
		s.unknown(args)
		return
	}
	if s.ran == c {
		s.ranTimes++
	} else {
		if s.ran != nil {
			s.ran.calls.Add(s.ranTimes)
		}
		s.ran, s.ranTimes = c, 1
	}
	err := s.permit(c, args) // before anything else of the request is looked at
	switch {
	case err != nil:
		s.spoilTransaction()
	case !c.takes(len(args)):
		err = NewReplyError("ERR", "wrong number of arguments for '"+c.name+"' command: "+c.usage())
		s.spoilTransaction()
	case s.caching && !c.flags.has(immediate):
		err = errNoTracking
		s.caching = s.multi != nil // until its end
		s.spoilTransaction()
	case s.multi != nil && !c.flags.has(immediate):
		err = s.queue(c, args)
	default:
		err = c.do(s, args)
	}
	if err != nil {
		s.fail(err)
	}
}

// do is run, with an error that says how the command is written.
func (c *command) do(s *session, args [][]byte) error {
	err := s.enterCounters(c, args)
	if err == nil {
		err = c.run(s, args)
	}
	switch {
	case errors.Is(err, ErrSyntax):
		return NewReplyError("ERR", "syntax error: "+c.usage())
	case errors.Is(err, ErrExpireTime):
		return NewReplyError("ERR", ErrExpireTime.Text+" in '"+c.name+"' command")
	}
	return err
}

func (c *command) usage() string {
	return strings.TrimSpace(strings.ToUpper(c.name) + " " + c.syntax)
}

// unknown refuses a command that there is not. Lines of HTTP end the connection: a page in a
// browser can send those to any port, with commands in the body.
func (s *session) unknown(args [][]byte) {
	s.server.commands.unknown.Add(1)
	s.spoilTransaction()
	if ArgumentIs(args[0], "POST") || ArgumentIs(args[0], "Host:") {
		s.server.log.Warn("a RESP connection was closed: its client speaks HTTP, maybe for a web page that attacks this server", "remote", s.conn.RemoteAddr().String())
		s.fail(NewReplyError("ERR", "this address speaks RESP, not HTTP"))
		s.quit = true
		return
	}
	if why := missing(args[0]); why != "" {
		s.fail(NewReplyError("ERR", "unknown command '"+ClipArgument(args[0])+"': "+why))
		return
	}
	var b strings.Builder
	b.WriteString("unknown command '" + ClipArgument(args[0]) + "', with args beginning with:")
	const shown = 5
	for _, arg := range args[1:min(len(args), shown)] {
		b.WriteString(" '" + ClipArgument(arg) + "'")
	}
	s.fail(NewReplyError("ERR", b.String()))
}

// missing says why there is not a command that clients of a counter may expect; "": it is none of those.
func missing(name []byte) string {
	for _, one := range []string{"PFADD", "PFCOUNT", "PFMERGE"} {
		if ArgumentIs(name, one) {
			return "Weir counts hits, not distinct values: keep those in Redis"
		}
	}
	return ""
}

// counterCommands are those of package counting.
func counterCommands() (list []*command) {
	for _, c := range CounterCommands() {
		one := &command{name: c.Name, syntax: c.Syntax, summary: c.Summary, group: c.Group, arity: c.Arity, first: c.First, last: c.Last, step: c.Step, flags: counter}
		if c.Writes {
			one.flags |= writes
		}
		one.run = func(s *session, args [][]byte) error { return c.Run(&s.counters, args) }
		list = append(list, one)
	}
	return list
}

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
			name: "settle", syntax: "id used|name=n [name=n ...] [DEBT]", summary: "Says how much of a reservation was used: the rest is given back.", group: group,
			arity: -3, flags: writes | waits, run: (*session).settleReservation,
		},
		{
			name: "grant", syntax: "limit key n duration", summary: "Grants a key n admissions in addition to a limit, to be used within a time; 0 takes them back.", group: group,
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
	}
}

const allowSyntax = "key [key ...] [NAME limit] [LIMIT n PER duration [BURST n] [ALGORITHM window|fixed|gcra]] [COST n] [COST name=n ...]"

// command is COMMAND: what clients ask to know where keys are, and people to complete words.
func (s *session) command(args [][]byte) error {
	all := s.server.commands.list
	if len(args) == 1 {
		s.out.Array(len(all))
		for _, c := range all {
			s.writeCommand(c)
		}
		return nil
	}
	sub, names := args[1], args[2:]
	switch {
	case ArgumentIs(sub, "COUNT") && len(names) == 0:
		s.out.Int(int64(len(all)))
	case ArgumentIs(sub, "LIST") && len(names) == 0:
		s.out.Array(len(all))
		for _, c := range all {
			s.out.Bulk(c.name)
		}
	case ArgumentIs(sub, "INFO"):
		s.commandInfo(names)
	case ArgumentIs(sub, "DOCS"):
		s.commandDocs(names)
	default:
		return ErrSyntax
	}
	return nil
}

func (s *session) commandInfo(names [][]byte) {
	if len(names) == 0 {
		s.out.Array(len(s.server.commands.list))
		for _, c := range s.server.commands.list {
			s.writeCommand(c)
		}
		return
	}
	s.out.Array(len(names))
	for _, name := range names {
		if c := s.server.commands.find(name); c != nil {
			s.writeCommand(c)
		} else {
			s.out.NullArray()
		}
	}
}

// writeCommand writes a command as Redis 6 did: name, arity, flags, and the places of its keys.
func (s *session) writeCommand(c *command) {
	s.out.Array(6)
	s.out.Bulk(c.name)
	s.out.Int(int64(c.arity))
	flags := []string{"readonly"}
	if c.flags.has(writes) {
		flags = []string{"write", "denyoom"}
	}
	if !c.flags.has(waits) {
		flags = append(flags, "fast")
	}
	s.out.Array(len(flags))
	for _, f := range flags {
		s.out.Status(f)
	}
	s.out.Int(int64(c.first))
	s.out.Int(int64(c.last))
	s.out.Int(int64(c.step))
}

func (s *session) commandDocs(names [][]byte) {
	var of []*command
	for _, c := range s.server.commands.list {
		if len(names) == 0 || slices.ContainsFunc(names, func(name []byte) bool { return ArgumentIs(name, c.name) }) {
			of = append(of, c)
		}
	}
	s.out.Map(len(of))
	for _, c := range of {
		s.out.Bulk(c.name)
		s.out.Map(4)
		s.out.Bulk("summary")
		s.out.Bulk(c.summary)
		s.out.Bulk("since")
		s.out.Bulk("1.0.0")
		s.out.Bulk("group")
		s.out.Bulk(c.group)
		s.out.Bulk("arguments")
		s.writeArguments(c)
	}
}

// writeArguments writes the syntax as one argument that stands for itself.
func (s *session) writeArguments(c *command) {
	if c.syntax == "" {
		s.out.Array(0)
		return
	}
	s.out.Array(1)
	s.out.Map(3)
	s.out.Bulk("name")
	s.out.Bulk(c.syntax)
	s.out.Bulk("type")
	s.out.Bulk("string")
	s.out.Bulk("display_text")
	s.out.Bulk(strings.TrimSpace(c.syntax))
}
