package resp

import (
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/weir-counter/weir/resp/argument"
	"github.com/weir-counter/weir/resp/protocol"
)

// script is one that a library of limits sends to Redis. The door knows it by the SHA-1 of its text, and does
// natively what it does: there is no Lua.
type script struct {
	library string // that sends it, for people
	sha     string // of its text: 40 hexadecimal digits in lower case

	keys, args int // that it needs at least
	run        func(s *session, keys, args [][]byte) error
}

// scripts are all that the door knows. The tests of bench/doors run the libraries themselves, and so find
// a text that a new version has changed.
func scripts() []*script {
	return slices.Concat(redisRateScripts(), traefikScripts(), flexibleScripts(), upstashScripts(), upstashMoreScripts())
}

// scriptTable finds scripts by the SHA-1 of their texts.
type scriptTable struct {
	bySHA map[[sha1.Size]byte]*script
	names string // of the libraries, for errors
}

func newScriptTable() scriptTable {
	t := scriptTable{bySHA: map[[sha1.Size]byte]*script{}}
	var libraries []string
	for _, one := range scripts() {
		var sha [sha1.Size]byte
		copy(sha[:], hexBytes(one.sha))
		t.bySHA[sha] = one
		if !slices.Contains(libraries, one.library) {
			libraries = append(libraries, one.library)
		}
	}
	t.names = strings.Join(libraries, ", ")
	return t
}

func hexBytes(digits string) []byte {
	b, err := hex.DecodeString(digits)
	if err != nil {
		panic("resp: the SHA-1 of a script: " + err.Error())
	}
	return b
}

// byDigits returns the script of a SHA-1 as EVALSHA has it, or nil.
func (t *scriptTable) byDigits(digits []byte) *script {
	var sha [sha1.Size]byte
	if len(digits) != hex.EncodedLen(len(sha)) {
		return nil
	}
	if _, err := hex.Decode(sha[:], digits); err != nil {
		return nil
	}
	return t.bySHA[sha]
}

// byText returns the script of a text, or why there is none.
func (t *scriptTable) byText(text []byte) (*script, error) {
	sha := sha1.Sum(text)
	if known := t.bySHA[sha]; known != nil {
		return known, nil
	}
	return nil, argument.Fail("ERR", "Weir runs no Lua. It knows the scripts of "+t.names+", and does what they do; the text with the SHA-1 "+
		hex.EncodeToString(sha[:])+" is none of them. Use the commands ALLOW, CL.THROTTLE or INCREX in its place; docs/resp.md lists versions")
}

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
	known, err := s.server.scripts.byText(args[1])
	if err != nil {
		return err
	}
	return s.runScript(known, args[2:])
}

func (s *session) evalSHA(args [][]byte) error {
	known := s.server.scripts.byDigits(args[1])
	if known == nil {
		return errNoScript
	}
	return s.runScript(known, args[2:])
}

// runScript runs a script with the number of its keys, the keys and the arguments.
func (s *session) runScript(of *script, args [][]byte) error {
	n, ok := protocol.ParseInt(args[0])
	args = args[1:]
	switch {
	case !ok:
		return argument.ErrNotInteger
	case n < 0:
		return argument.Fail("ERR", "Number of keys can't be negative")
	case n > int64(len(args)):
		return argument.Fail("ERR", "Number of keys can't be greater than number of args")
	}
	keys, args := args[:n], args[n:]
	if len(keys) < of.keys || len(args) < of.args {
		return argument.Fail("ERR", "the script of "+of.library+" was sent with too few keys or arguments")
	}
	return of.run(s, keys, args)
}

// script is SCRIPT. The scripts that are known are always there: LOAD and FLUSH change nothing.
func (s *session) script(args [][]byte) error {
	sub, rest := args[1], args[2:]
	switch {
	case argument.Is(sub, "LOAD") && len(rest) == 1:
		known, err := s.server.scripts.byText(rest[0])
		if err != nil {
			return err
		}
		s.out.Bulk(known.sha)
	case argument.Is(sub, "EXISTS") && len(rest) > 0:
		s.out.Array(len(rest))
		for _, digits := range rest {
			s.out.Int(int64(bit(s.server.scripts.byDigits(digits) != nil)))
		}
	case argument.Is(sub, "FLUSH") && (len(rest) == 0 || len(rest) == 1 && (argument.Is(rest[0], "ASYNC") || argument.Is(rest[0], "SYNC"))):
		s.out.Status("OK")
	default:
		return argument.ErrSyntax
	}
	return nil
}
