package resp

import (
	"errors"
	"strings"
	"sync/atomic"

	"github.com/weir-counter/weir/resp/argument"
	"github.com/weir-counter/weir/resp/counting"
)

// command is one that the door knows.
type command struct {
	name    string // in lower case
	capital string // the same in capitals
	syntax  string // of its arguments, for people
	summary string
	group   string

	// arity is the arguments that it must have, its name among them; below 0: at least so
	// many. first, last and step say which are keys, as COMMAND does.
	arity, first, last, step int

	flags flags
	run   func(s *session, args [][]byte) error // writes the reply, or says why not

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
	for _, group := range [][]*command{weirCommands(), counterCommands(), scriptCommands(), connectionCommands(), serverCommands()} {
		for _, one := range group {
			c.list = append(c.list, one)
			one.capital = strings.ToUpper(one.name)
			c.byName[one.capital] = one
		}
	}
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
	var err error
	switch {
	case !c.takes(len(args)):
		err = argument.Fail("ERR", "wrong number of arguments for '"+c.name+"' command: "+c.usage())
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
	err := s.permit(c, args)
	if err == nil {
		err = c.run(s, args)
	}
	if errors.Is(err, argument.ErrSyntax) {
		return argument.Fail("ERR", "syntax error: "+c.usage())
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
	if argument.Is(args[0], "POST") || argument.Is(args[0], "Host:") {
		s.server.log.Warn("a RESP connection was closed: its client speaks HTTP, maybe for a web page that attacks this server", "remote", s.conn.RemoteAddr().String())
		s.fail(argument.Fail("ERR", "this address speaks RESP, not HTTP"))
		s.quit = true
		return
	}
	if why := missing(args[0]); why != "" {
		s.fail(argument.Fail("ERR", "unknown command '"+argument.Clip(args[0])+"': "+why))
		return
	}
	var b strings.Builder
	b.WriteString("unknown command '" + argument.Clip(args[0]) + "', with args beginning with:")
	const shown = 5
	for _, arg := range args[1:min(len(args), shown)] {
		b.WriteString(" '" + argument.Clip(arg) + "'")
	}
	s.fail(argument.Fail("ERR", b.String()))
}

// missing says why there is not a command that clients of a counter may expect; "": it is none of those.
func missing(name []byte) string {
	for _, one := range []string{"PFADD", "PFCOUNT", "PFMERGE"} {
		if argument.Is(name, one) {
			return "Weir counts hits, not distinct values: keep those in Redis"
		}
	}
	return ""
}

// counterCommands are those of package counting.
func counterCommands() (list []*command) {
	for _, c := range counting.Commands() {
		one := &command{name: c.Name, syntax: c.Syntax, summary: c.Summary, group: c.Group, arity: c.Arity, first: c.First, last: c.Last, step: c.Step, flags: counter}
		if c.Writes {
			one.flags |= writes
		}
		one.run = func(s *session, args [][]byte) error { return c.Run(&s.counters, args) }
		list = append(list, one)
	}
	return list
}
