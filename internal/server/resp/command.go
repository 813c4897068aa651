package resp

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"

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
