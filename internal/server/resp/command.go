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
	commandRow
	group   string
	capital string // its name in capitals

	calls atomic.Uint64
	took  access.Timer
}

// commandRow is a command in the table.
type commandRow struct {
	name    string // in lower case
	syntax  string // of its arguments, for people
	summary string

	arity  int // the arguments that it must have, its name among them; below 0: at least so many
	places keyPlaces
	flags  flags
	need   access.Need                           // of a client
	run    func(s *session, args [][]byte) error // writes the reply, or says why not
}

type flags uint16

const (
	writes    flags = 1 << iota
	counter         // it is about counters that the listener keeps
	deletes         // it is DEL
	waits           // perhaps for other nodes: not in a transaction
	lengthy         // its reply is: not in a transaction
	immediate       // also in a transaction: it is not queued
	public          // also for a client that has not authenticated
	onData          // it is about hits, limits or counters
	onAll           // it is about all counters: a transaction holds them
	script          // it may be about counters
)

// has reports whether one of the flags is set.
func (f flags) has(one flags) bool { return f&one != 0 }

// commands are all of them. What is counted of them is for all sessions.
type commands struct {
	list   []*command          // by name
	byName map[string]*command // in capitals

	unknown atomic.Uint64
	failed  atomic.Uint64 // requests that were answered with an error
}

func newCommands() *commands {
	c := &commands{byName: map[string]*command{}}
	for group, rows := range commandTable() {
		for _, row := range rows {
			one := &command{commandRow: row, group: group, capital: strings.ToUpper(row.name)}
			if group != connectionGroup && group != serverGroup && group != transactionGroup {
				one.flags |= onData
			}
			c.list = append(c.list, one)
			c.byName[one.capital] = one
		}
	}
	slices.SortFunc(c.list, func(a, b *command) int { return strings.Compare(a.name, b.name) })
	return c
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

// find is commands.find, faster for the command that ran last: most requests of a pipeline have the same command, in capitals.
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
	if !c.flags.has(counter | script) {
		s.deliver()
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
	switch {
	case err != nil:
	case s.forwards() && c.flags.has(counter|onAll):
		err = s.forward(args...)
	default:
		if c.flags.has(counter) && c.flags.has(writes) {
			err = s.server.counters.Refuses()
		}
		if err == nil {
			err = c.run(s, args)
		}
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
	var b strings.Builder
	b.WriteString("unknown command '" + ClipArgument(args[0]) + "', with args beginning with:")
	const shown = 5
	for _, arg := range args[1:min(len(args), shown)] {
		b.WriteString(" '" + ClipArgument(arg) + "'")
	}
	s.fail(NewReplyError("ERR", b.String()))
}

// command is COMMAND: what clients ask to know where keys are, and people to complete words.
func (s *session) command(args [][]byte) error {
	all := s.server.commands.list
	if len(args) == 1 {
		s.commandInfo(nil)
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
		for _, c := range s.server.commands.list {
			names = append(names, []byte(c.name))
		}
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
	s.out.Values(c.name, c.arity)
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
	s.out.Values(c.places.first, c.places.last, c.places.step)
}

func (s *session) commandDocs(names [][]byte) {
	var chosen []*command
	for _, c := range s.server.commands.list {
		if len(names) == 0 || slices.ContainsFunc(names, func(name []byte) bool { return ArgumentIs(name, c.name) }) {
			chosen = append(chosen, c)
		}
	}
	s.out.Map(len(chosen))
	for _, c := range chosen {
		s.out.Bulk(c.name)
		s.out.Map(4)
		s.out.Values("summary", c.summary, "since", "1.0.0", "group", c.group, "arguments")
		if c.syntax == "" {
			s.out.Array(0)
			continue
		}
		s.out.Array(1) // the syntax, as one argument that stands for itself
		s.out.Map(3)
		s.out.Values("name", c.syntax, "type", "string", "display_text", strings.TrimSpace(c.syntax))
	}
}

// This file is the table of all commands.

// What commands need of a client. The zero Need is anybody who has authenticated.
var (
	anybody = access.Need{}
	ingests = access.Need{Roles: []auth.Role{auth.Ingest}}
	decides = access.Decides
	reads   = access.Need{Roles: []auth.Role{auth.Read}}

	readsAll    = access.Need{Roles: []auth.Role{auth.Read}, All: true}
	allCounters = access.Need{Roles: []auth.Role{auth.Decide}, All: true}
	flushes     = access.Need{Roles: []auth.Role{auth.Admin}, All: true, Action: "delete counters"}
)

// operates is the Need of a command for operators.
func operates(action string) access.Need {
	return access.Need{Roles: []auth.Role{auth.Admin}, Action: action}
}

// keyPlaces says which arguments of a command are keys, as COMMAND does.
type keyPlaces struct{ first, last, step int }

var (
	noKey  = keyPlaces{}
	oneKey = keyPlaces{1, 1, 1}
	second = keyPlaces{2, 2, 1}
	keys   = keyPlaces{1, -1, 1}
	pairs  = keyPlaces{1, -1, 2}
)

// The groups of commands that are not about data.
const (
	connectionGroup  = "connection"
	transactionGroup = "transactions"
	serverGroup      = "server"
)

const (
	countSyntax  = "key window [window ...] [AT time] [FRESH duration] [SCOPE node|region|global] [BY region]"
	allowSyntax  = "key [key ...] [NAME limit] [LIMIT n PER duration [BURST n] [ALGORITHM window|fixed|gcra]] [COST n] [COST name=n ...]"
	expireSyntax = "[NX | XX] [GT | LT]"
	clientSyntax = "ID | INFO | GETNAME | SETNAME name | SETINFO LIB-NAME | LIB-VER text | NO-EVICT ON | OFF | NO-TOUCH ON | OFF | TRACKING ON OPTIN | OFF"
	setSyntax    = "key number [NX | XX] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]"
)

// commandTable is all commands by group: name, syntax, summary, arity, keys, flags, need, and what runs them.
func commandTable() map[string][]commandRow {
	type s = *session
	return map[string][]commandRow{
		"weir": {
			{"hit", "key [n] [AT time]", "Counts n hits of a key (1), now or at a time.", -2, oneKey, writes, ingests, s.hit},
			{"mhit", "key n [key n ...]", "Counts hits of several keys, now.", -3, pairs, writes, ingests, s.mhit},
			{"pfadd", "key [id ...]", "Counts a hit for each id, and which ids are different.", -2, oneKey, writes, ingests, s.pfAdd},
			{"pfcount", "key [key ...] [WINDOW window]", "Says how many different ids the hits of keys carried together.", -2, keys, waits, reads, s.pfCount},
			{"pfmerge", "key [key ...]", "Adds the ids of further keys to those of the first.", -2, keys, writes | waits, ingests, s.pfMerge},
			{"count", countSyntax, "Says how many hits a key has in rolling windows.", -3, oneKey, waits, reads, s.count},
			{"rate", countSyntax, "Says how many hits per second a key has in rolling windows.", -3, oneKey, waits, reads, s.rate},
			{
				"series", "key step [FROM time] [TO time] [FRESH duration] [SCOPE node|region|global]",
				"Lists the hits of a key in adjoining windows, of the last hour by default.", -3, oneKey, waits, reads, s.series,
			},
			{
				"top", "window n [PREFIX text] [AT time] [FRESH duration] [SCOPE node|region|global]",
				"Lists the n keys with the most hits in a rolling window.", -3, noKey, waits, reads, s.top,
			},
			{"allow", allowSyntax, "Asks whether a request may pass its limits, and takes what it asks for: all or none.", -2, oneKey, writes | waits, decides, s.allow},
			{"peek", allowSyntax, "Asks what ALLOW would say, and takes nothing.", -2, oneKey, waits, decides, s.peek},
			{
				"refund", allowSyntax + " [TAKEN time]", "Gives back what ALLOW took, for the same arguments.", -2, oneKey, writes | waits,
				access.Need{Roles: []auth.Role{auth.Decide}, Action: "refund"}, s.refund,
			},
			{"reserve", allowSyntax + " [TTL duration] [ID id] [UNSETTLED used|returned]", "Takes as ALLOW does, to be settled later.", -2, oneKey, writes | waits, decides, s.reserveAdmissions},
			{"settle", "id used|name=n [name=n ...] [DEBT]", "Says how much of a reservation was used: the rest is given back.", -3, noKey, writes | waits, decides, s.settleReservation},
			{"grant", "limit key n duration", "Grants a key n admissions in addition to a limit, to be used within a time; 0 takes them back.", -4, second, writes | waits, operates("grant"), s.grant},
			{"ban", "limit key duration", "Has a key denied for a time, whatever it has used.", 4, second, writes | waits, operates("ban"), s.ban},
			{"unban", "limit key", "Lifts the ban of a key.", 3, second, writes | waits, operates("unban"), s.unban},
			{"bans", "[n]", "Lists the keys that are banned, 100 by default.", -1, noKey, waits, reads, s.bans},
			{"permit", "key [NAME limit]", "Takes a permit to be one of so many at once.", -2, oneKey, writes, decides, s.takePermit},
			{"heartbeat", "id", "Keeps a permit for its ttl more.", 2, noKey, writes, decides, s.heartbeat},
			{"release", "id", "Gives a permit back.", 2, noKey, writes, decides, s.release},
			{"cl.throttle", "key max_burst count period_seconds [quantity]", "Takes from a token bucket (GCRA), as redis-cell does.", -5, oneKey, writes | waits, decides, s.throttle},
		},
		"string": {
			{"incr", "key", "Adds 1 to a counter.", 2, oneKey, counter | writes, decides, s.incr},
			{"incrby", "key n", "Adds n to a counter.", 3, oneKey, counter | writes, decides, s.incrBy},
			{"decr", "key", "Takes 1 from a counter.", 2, oneKey, counter | writes, decides, s.decr},
			{"decrby", "key n", "Takes n from a counter.", 3, oneKey, counter | writes, decides, s.decrBy},
			{"get", "key", "Says what a counter is.", 2, oneKey, counter, decides, s.get},
			{"mget", "key [key ...]", "Says what several counters are.", -2, keys, counter, decides, s.mget},
			{"set", setSyntax, "Sets a counter.", -3, oneKey, counter | writes, decides, s.set},
			{"setnx", "key number", "Sets a counter that is not there.", 3, oneKey, counter | writes, decides, s.setNX},
			{"setex", "key seconds number", "Sets a counter that expires after so many seconds.", 4, oneKey, counter | writes, decides, setFor("EX")},
			{"psetex", "key milliseconds number", "Sets a counter that expires after so many milliseconds.", 4, oneKey, counter | writes, decides, setFor("PX")},
			{"getset", "key number", "Sets a counter, and says what it was.", 3, oneKey, counter | writes, decides, s.getSet},
			{"getdel", "key", "Removes a counter, and says what it was.", 2, oneKey, counter | writes, decides, s.getDel},
			{
				"getex", "key [EX s | PX ms | EXAT s | PXAT ms | PERSIST]", "Says what a counter is, and when it expires from now on.",
				-2, oneKey, counter | writes, decides, s.getEx,
			},
		},
		"generic": {
			{"type", "key", "Says whether a key holds a number (string) or a log of times (zset).", 2, oneKey, counter, decides, s.kind},
			{"persist", "key", "Has a counter never expire.", 2, oneKey, counter | writes, decides, s.persist},
			{"exists", "key [key ...]", "Says how many of the keys have a counter, or ids of PFADD at this node.", -2, keys, counter, decides, s.exists},
			{"expire", "key seconds " + expireSyntax, "Says after how many seconds a counter expires.", -3, oneKey, counter | writes, decides, expire(1000, false)},
			{"pexpire", "key milliseconds " + expireSyntax, "Says after how many milliseconds a counter expires.", -3, oneKey, counter | writes, decides, expire(1, false)},
			{"expireat", "key seconds " + expireSyntax, "Says at which second of the Unix epoch a counter expires.", -3, oneKey, counter | writes, decides, expire(1000, true)},
			{"pexpireat", "key milliseconds " + expireSyntax, "Says at which millisecond of the Unix epoch a counter expires.", -3, oneKey, counter | writes, decides, expire(1, true)},
			{"ttl", "key", "Says in how many seconds a counter expires.", 2, oneKey, counter, decides, timeLeft(1000)},
			{"pttl", "key", "Says in how many milliseconds a counter expires.", 2, oneKey, counter, decides, timeLeft(1)},
			{"del", "key [key ...]", "Deletes keys: their hits on all nodes, and their counters.", -2, keys, writes | deletes, operates("delete key"), s.del},
			{"unlink", "key [key ...]", "Deletes keys, as DEL does.", -2, keys, writes | deletes, operates("delete key"), s.del},
			{"scan", "cursor [MATCH pattern] [COUNT n] [TYPE type]", "Lists the keys of counters, some at a time.", -2, noKey, lengthy, decides, s.scan},
			{"dbsize", "", "Says how many counters there are.", 1, noKey, 0, allCounters, s.dbSize},
			{"flushdb", "[ASYNC | SYNC]", "Removes all counters.", -1, noKey, writes | onAll, flushes, s.flush},
			{"flushall", "[ASYNC | SYNC]", "Removes all counters.", -1, noKey, writes | onAll, flushes, s.flush},
		},
		"scripting": {
			{"eval", "text numkeys [key ...] [argument ...]", "Does what a script of a known library does.", -3, noKey, writes | waits | script, decides, s.eval},
			{"evalsha", "sha1 numkeys [key ...] [argument ...]", "Does what a script of a known library does.", -3, noKey, writes | waits | script, decides, s.evalSHA},
			{"script", "LOAD text | EXISTS sha1 [sha1 ...] | FLUSH [ASYNC | SYNC]", "Says which scripts are known.", -2, noKey, lengthy, anybody, s.script},
		},
		connectionGroup: {
			{"ping", "[text]", "Answers PONG, or the text.", -1, noKey, 0, anybody, s.ping},
			{"echo", "text", "Answers the text.", 2, noKey, 0, anybody, s.echo},
			{"hello", "[2 | 3 [AUTH user password] [SETNAME name]]", "Chooses a version of the protocol.", -1, noKey, waits | public, anybody, s.hello},
			{"auth", "[user] password", "Says who asks: the password is a token.", -2, noKey, public, anybody, s.auth},
			{"select", "0", "Takes database 0, the only one.", 2, noKey, 0, anybody, s.selectDB},
			{"client", clientSyntax, "Says and sets what is known of this connection.", -2, noKey, 0, anybody, s.client},
			{
				"reset", "[key [key ...] [NAME limit]]", "Makes the connection as new; with keys, forgets what they have used of limits.", -1, noKey, immediate | public,
				access.Need{Roles: []auth.Role{auth.Decide, auth.Admin}, Action: "reset limit"}, s.reset,
			},
			{"quit", "", "Closes the connection.", -1, noKey, immediate | public, anybody, s.leave},
		},
		transactionGroup: {
			{"multi", "", "Begins a transaction.", 1, noKey, immediate, anybody, s.begin},
			{"exec", "", "Runs the commands since MULTI as one step.", 1, noKey, immediate, anybody, s.exec},
			{"discard", "", "Forgets the commands since MULTI.", 1, noKey, immediate, anybody, s.discard},
		},
		serverGroup: {
			{"command", "[COUNT | LIST | INFO [name ...] | DOCS [name ...]]", "Lists the commands.", -1, noKey, lengthy, anybody, s.command},
			{"config", "GET pattern [pattern ...]", "Says some settings under their names in Redis.", -2, noKey, lengthy, anybody, s.config},
			{"time", "", "Says the time, in seconds of the Unix epoch and microseconds.", 1, noKey, 0, anybody, s.time},
			{"info", "[section ...]", "Says how the server is.", -1, noKey, waits, readsAll, s.info},
		},
	}
}
