package scripts

import (
	"slices"

	"github.com/weir-counter/weir/resp/argument"
	"github.com/weir-counter/weir/resp/protocol"
)

// Script is one that a library of limits sends to Redis.
type Script struct {
	SHA     string // of its text, SHA-1: 40 hexadecimal digits in lower case
	library string // that sends it, for people

	keys, args int // that it needs at least
	run        func(s *Session, keys, args [][]byte) error
}

// all are those that are known.
func all() []*Script {
	return slices.Concat(redisRateScripts(), traefikScripts(), flexibleScripts(), upstashScripts(), upstashBucketScripts())
}

// Run does what a script does, with the number of its keys, the keys and the arguments, and writes its reply. After an
// error nothing is written.
func (of *Script) Run(s *Session, args [][]byte) error {
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
