package resp

import (
	"fmt"
	"strings"

	"github.com/weir-counter/weir/resp/argument"
	"github.com/weir-counter/weir/resp/counters"
)

// transaction is the commands between MULTI and EXEC.
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
	// maxQueued and maxQueuedBytes bound a transaction: keys of others wait while it runs.
	maxQueued      = 1024
	maxQueuedBytes = 256 << 10

	// queuedBytes is the memory of an argument beside its bytes.
	queuedBytes = 48
)

func (s *session) begin([][]byte) error {
	if s.multi != nil {
		return argument.Fail("ERR", "MULTI calls can not be nested")
	}
	s.multi = &transaction{}
	s.out.Status("OK")
	return nil
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
		err = argument.Fail("ERR", strings.ToUpper(c.name)+" may wait for other nodes, and no transaction may: send it outside of MULTI")
	case c.flags.has(lengthy):
		err = argument.Fail("ERR", strings.ToUpper(c.name)+" has a long reply, and those of a transaction are kept in memory: send it outside of MULTI")
	case len(m.queued) >= maxQueued || m.bytes+bytes > maxQueuedBytes:
		err = argument.Fail("ERR", fmt.Sprintf("a transaction has at most %d commands and %d bytes", maxQueued, maxQueuedBytes))
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
		return argument.Fail("ERR", "DISCARD without MULTI")
	}
	s.dropTransaction()
	s.out.Status("OK")
	return nil
}

// exec runs the transaction: nobody else changes its counters meanwhile. Its replies wait in memory,
// since a client that takes none must not keep others waiting; the bounds of a transaction bound
// them too.
func (s *session) exec([][]byte) error {
	m := s.multi
	switch {
	case m == nil:
		return argument.Fail("ERR", "EXEC without MULTI")
	case m.spoiled:
		s.dropTransaction()
		return argument.Fail("EXECABORT", "Transaction discarded because of previous errors.")
	}
	s.multi = nil
	s.out.Hold(true)
	s.counters.Counters.Hold(s.shardsOf(m.queued))
	s.out.Array(len(m.queued))
	for i := range m.queued {
		q := &m.queued[i]
		if err := q.command.do(s, q.args); err != nil {
			s.fail(err)
		}
	}
	s.counters.Counters.Release()
	s.out.Hold(false)
	s.multi = m
	s.dropTransaction()
	return nil
}

// shardsOf are those of the counters that commands name.
func (s *session) shardsOf(all []queued) (of counters.Shards) {
	for _, q := range all {
		c := q.command
		if !c.flags.has(counter) {
			continue
		}
		last := c.last
		if last < 0 {
			last += len(q.args)
		}
		for i := c.first; i <= last; i += c.step {
			of |= s.counters.Counters.ShardOf(q.args[i])
		}
	}
	return of
}
