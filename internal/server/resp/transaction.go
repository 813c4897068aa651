package resp

import (
	"fmt"
	"strings"

	"github.com/weir-counter/weir/internal/engine/counters"
)

// transaction has the commands between MULTI and EXEC.
type transaction struct {
	queued  []queued
	bytes   int
	spoiled bool // a command was refused: EXEC runs none
}

type queued struct {
	command *command
	args    [][]byte
}

const (
	// maxQueued and maxQueuedBytes bound a transaction, because other clients of the same keys wait while it runs.
	maxQueued      = 1024
	maxQueuedBytes = 256 << 10

	// queuedBytes is the memory of an argument without its bytes.
	queuedBytes = 48
)

func (s *session) begin([][]byte) error {
	if s.multi != nil {
		return NewReplyError("ERR", "MULTI calls can not be nested")
	}
	s.multi = &transaction{}
	return s.ok()
}

// queue keeps a command for EXEC.
func (s *session) queue(c *command, args [][]byte) error {
	m := s.multi
	bytes := 0
	for _, arg := range args {
		bytes += queuedBytes + len(arg)
	}
	var err error
	switch {
	case c.flags.has(waits):
		err = NewReplyError("ERR", strings.ToUpper(c.name)+" may wait for other nodes, and no transaction may: send it outside of MULTI")
	case c.flags.has(lengthy):
		err = NewReplyError("ERR", strings.ToUpper(c.name)+" has a long reply, and those of a transaction are kept in memory: send it outside of MULTI")
	case len(m.queued) >= maxQueued || m.bytes+bytes > maxQueuedBytes:
		err = NewReplyError("ERR", fmt.Sprintf("a transaction has at most %d commands and %d bytes", maxQueued, maxQueuedBytes))
	default:
		err = s.reserve(bytes)
	}
	if err != nil {
		m.spoiled = true
		return err
	}
	m.bytes += bytes
	kept := make([][]byte, len(args))
	for i, arg := range args {
		kept[i] = append([]byte(nil), arg...)
	}
	m.queued = append(m.queued, queued{c, kept})
	s.out.Status("QUEUED")
	return nil
}

func (s *session) spoilTransaction() {
	if s.multi != nil {
		s.multi.spoiled = true
	}
}

// dropTransaction forgets the transaction, if there is one.
func (s *session) dropTransaction() {
	s.caching = false
	if s.multi == nil {
		return
	}
	if s.multi.bytes > 0 {
		_ = s.reserve(-s.multi.bytes) // giving back does not fail
	}
	s.multi = nil
}

func (s *session) discard([][]byte) error {
	if s.multi == nil {
		return NewReplyError("ERR", "DISCARD without MULTI")
	}
	s.dropTransaction()
	return s.ok()
}

// exec runs the transaction as one atomic step for its counters. The replies stay in memory until the end, so that a
// client that does not read can't block others. The bounds of a transaction bound them too.
func (s *session) exec([][]byte) error {
	m := s.multi
	switch {
	case m == nil:
		return NewReplyError("ERR", "EXEC without MULTI")
	case m.spoiled:
		s.dropTransaction()
		return NewReplyError("EXECABORT", "Transaction discarded because of previous errors.")
	}
	s.multi = nil
	deletions := s.deleteBefore(m.queued)
	var err error
	if s.forwards() {
		err = s.execFar(m.queued, deletions)
	} else {
		s.runTogether(m.queued, deletions)
	}
	s.multi = m
	s.dropTransaction()
	return err
}

// runTogether runs commands as one step for their counters.
func (s *session) runTogether(all []queued, deletions map[int]*deletion) {
	s.out.Hold(true)
	s.counters.Hold(s.shardsOf(all))
	s.out.Array(len(all))
	for i := range all {
		s.runQueued(&all[i], deletions[i])
	}
	s.counters.Release()
	s.out.Hold(false)
}

func (s *session) runQueued(q *queued, deleted *deletion) {
	s.deleted = deleted
	if err := q.command.do(s, q.args); err != nil {
		s.fail(err)
	}
	s.deleted = nil
}

// deleteBefore does the part of each DEL that may wait for other nodes: it deletes hits and resets limits. This happens
// before the atomic step, because nobody may wait for other nodes while holding counters.
func (s *session) deleteBefore(all []queued) (deletions map[int]*deletion) {
	for i, q := range all {
		if q.command.flags.has(deletes) {
			made := deletion{err: s.permit(q.command, q.args)}
			if made.err == nil {
				made = s.deleteHits(q.args[1:])
			}
			if deletions == nil {
				deletions = map[int]*deletion{}
			}
			deletions[i] = &made
		}
	}
	return deletions
}

// shardsOf returns the shards of the counters that commands name.
func (s *session) shardsOf(all []queued) (shards counters.Shards) {
	for _, q := range all {
		c := q.command
		if c.flags.has(onAll) {
			return counters.AllShards
		}
		if c.flags.has(counter | deletes) {
			for _, key := range c.keys(q.args) {
				shards |= s.counters.ShardOf(key)
			}
		}
	}
	return shards
}

var errNoScript = NewReplyError("NOSCRIPT", "No matching script. Please use EVAL.")

func (s *session) eval(args [][]byte) error {
	known, err := s.server.scripts.ByText(args[1])
	if err != nil {
		return err
	}
	return known.Run(s, args[2:])
}

func (s *session) evalSHA(args [][]byte) error {
	known := s.server.scripts.BySHA(args[1])
	if known == nil {
		return errNoScript
	}
	return known.Run(s, args[2:])
}

// permitCounters fails unless the caller may use the keys.
func (s *session) permitCounters(keys [][]byte) error {
	if s.far {
		return nil
	}
	return s.server.service.PermitCounters(s.caller, keys)
}

// script is SCRIPT. The known scripts always exist: LOAD and FLUSH change nothing.
func (s *session) script(args [][]byte) error {
	sub, rest := args[1], args[2:]
	switch {
	case ArgumentIs(sub, "LOAD") && len(rest) == 1:
		known, err := s.server.scripts.ByText(rest[0])
		if err != nil {
			return err
		}
		s.out.Bulk(known.SHA)
	case ArgumentIs(sub, "EXISTS") && len(rest) > 0:
		s.out.Array(len(rest))
		for _, digits := range rest {
			s.out.Int(int64(bit(s.server.scripts.BySHA(digits) != nil)))
		}
	case ArgumentIs(sub, "FLUSH") && (len(rest) == 0 || len(rest) == 1 && (ArgumentIs(rest[0], "ASYNC") || ArgumentIs(rest[0], "SYNC"))):
		s.out.Status("OK")
	default:
		return ErrSyntax
	}
	return nil
}
