package resp

import (
	"slices"
	"strings"

	"github.com/weir-counter/weir/resp/argument"
)

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
	case argument.Is(sub, "COUNT") && len(names) == 0:
		s.out.Int(int64(len(all)))
	case argument.Is(sub, "LIST") && len(names) == 0:
		s.out.Array(len(all))
		for _, c := range all {
			s.out.Bulk(c.name)
		}
	case argument.Is(sub, "INFO"):
		s.commandInfo(names)
	case argument.Is(sub, "DOCS"):
		s.commandDocs(names)
	default:
		return argument.ErrSyntax
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
		if len(names) == 0 || slices.ContainsFunc(names, func(name []byte) bool { return argument.Is(name, c.name) }) {
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
