package resp

import (
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/service/access"
)

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
