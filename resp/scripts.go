package resp

import (
	"github.com/weir-counter/weir/resp/argument"
)

var errNoScript = argument.Fail("NOSCRIPT", "No matching script. Please use EVAL.")

func scriptCommands() []*command {
	const group = "scripting"
	return []*command{
		{name: "eval", syntax: "text numkeys [key ...] [argument ...]", summary: "Does what a script of a known library does.", group: group, arity: -3, flags: writes | waits, run: (*session).eval},
		{name: "evalsha", syntax: "sha1 numkeys [key ...] [argument ...]", summary: "Does what a script of a known library does.", group: group, arity: -3, flags: writes | waits, run: (*session).evalSHA},
		{name: "script", syntax: "LOAD text | EXISTS sha1 [sha1 ...] | FLUSH [ASYNC | SYNC]", summary: "Says which scripts are known.", group: group, arity: -2, flags: lengthy, run: (*session).script},
	}
}

func (s *session) eval(args [][]byte) error {
	known, err := s.server.scripts.ByText(args[1])
	if err != nil {
		return err
	}
	return known.Run(&s.scripting, args[2:])
}

func (s *session) evalSHA(args [][]byte) error {
	known := s.server.scripts.BySHA(args[1])
	if known == nil {
		return errNoScript
	}
	return known.Run(&s.scripting, args[2:])
}

// PermitCounters refuses keys that are not the caller's.
func (s *session) PermitCounters(keys [][]byte) error {
	return s.server.service.PermitCounters(s.caller, keys)
}

// script is SCRIPT. The scripts that are known are always there: LOAD and FLUSH change nothing.
func (s *session) script(args [][]byte) error {
	sub, rest := args[1], args[2:]
	switch {
	case argument.Is(sub, "LOAD") && len(rest) == 1:
		known, err := s.server.scripts.ByText(rest[0])
		if err != nil {
			return err
		}
		s.out.Bulk(known.SHA)
	case argument.Is(sub, "EXISTS") && len(rest) > 0:
		s.out.Array(len(rest))
		for _, digits := range rest {
			s.out.Int(int64(bit(s.server.scripts.BySHA(digits) != nil)))
		}
	case argument.Is(sub, "FLUSH") && (len(rest) == 0 || len(rest) == 1 && (argument.Is(rest[0], "ASYNC") || argument.Is(rest[0], "SYNC"))):
		s.out.Status("OK")
	default:
		return argument.ErrSyntax
	}
	return nil
}
