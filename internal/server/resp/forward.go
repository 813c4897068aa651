package resp

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
)

// Among nodes, one of them keeps the counters: the owner (internal/cluster/limits). A session of any node checks what
// its client may do, and sends the commands on counters to the owner. Commands of one pipeline travel in one message,
// and so does a transaction. The owner runs them as a session does, and sends the replies as the client gets them.
//
// Invariant: replies come in the order of the requests. So what waits to be sent is sent before anything else is
// written (deliver).
//
// A message is a byte, the version of the protocol and farTransaction, and then commands as a client sends them. DEL is
// followed by pairs: a key, and 1 if hits of it were deleted. The command of farReply is a reply that the session has made already.
const (
	farTransaction = 4

	// farBytes is how many bytes of commands wait before they are sent, and mostFarBytes the most of one message.
	farBytes, mostFarBytes = 16 << 10, 768 << 10
)

// forwards reports whether another session runs commands on counters: the owner's.
func (s *session) forwards() bool { return s.server.owner != nil && !s.far }

var errTooFar = NewReplyError("ERR", "the request or its reply is too large for a message between nodes: name fewer keys at once")

// forward keeps a command for the owner.
func (s *session) forward(args ...[]byte) error {
	size := 0
	for _, arg := range args {
		size += len(arg) + queuedBytes
	}
	if size > mostFarBytes {
		return errTooFar
	}
	if s.waiting == 0 {
		s.request = append(s.request[:0], byte(s.version()))
	}
	s.request = appendRequest(s.request, args)
	if s.waiting++; len(s.request) >= farBytes {
		s.deliver()
	}
	return nil
}

func appendRequest(b []byte, args [][]byte) []byte {
	b = append(strconv.AppendInt(append(b, '*'), int64(len(args)), 10), '\r', '\n')
	for _, arg := range args {
		b = append(strconv.AppendInt(append(b, '$'), int64(len(arg)), 10), '\r', '\n')
		b = append(append(b, arg...), '\r', '\n')
	}
	return b
}

// deliver sends what waits for the owner, and writes the replies.
func (s *session) deliver() {
	n := s.waiting
	if n == 0 {
		return
	}
	s.waiting = 0
	reply, err := s.server.owner.Run(s.request)
	if cap(s.request) > 2*farBytes {
		s.request = nil
	}
	if err != nil || len(reply) == 0 {
		for range n {
			s.fail(tooFar(err))
		}
		return
	}
	s.out.Raw(reply)
}

// tooFar is why there is no reply; nil: it was too large.
func tooFar(err error) error {
	if err == nil {
		return errTooFar
	}
	return err
}

// execFar has the owner run a transaction. What is not about counters runs here before that.
func (s *session) execFar(all []queued, deletions map[int]*deletion) error {
	request := []byte{byte(s.version()) | farTransaction}
	for i := range all {
		q := &all[i]
		args, err := q.args, s.enterCounters(q.command, q.args)
		switch deleted := deletions[i]; {
		case deleted != nil && deleted.err == nil:
			args = deleted.far(args)
		case deleted != nil:
			args = s.farReply(func() error { return deleted.err })
		case err != nil || !q.command.flags.has(counter|onAll):
			args = s.farReply(func() error { return q.command.do(s, q.args) }) // which checks once more
		}
		request = appendRequest(request, args)
	}
	if len(request) > mostFarBytes {
		return errTooFar
	}
	reply, err := s.server.owner.Run(request)
	if err != nil || len(reply) == 0 {
		return tooFar(err)
	}
	s.out.Raw(reply)
	return nil
}

// far is a DEL as the owner gets it, which deletes the counters alone.
func (d *deletion) far(args [][]byte) (far [][]byte) {
	far = append(far, args[0])
	for i, key := range args[1:] {
		far = append(far, key, strconv.AppendInt(nil, int64(bit(d.existed[i])), 10))
	}
	return far
}

// farReply is a reply as a command of a transaction.
func (s *session) farReply(write func() error) [][]byte {
	var reply bytes.Buffer
	out := s.out
	s.out = &Writer{out: &reply, v3: out.v3}
	if err := write(); err != nil {
		s.fail(err)
	}
	_ = s.out.Flush() // a Buffer takes all
	s.out = out
	return [][]byte{[]byte(farReplyName), reply.Bytes()}
}

// farReplyName is no name of a command.
const farReplyName = "="

// farReply is the command of a reply that is there already.
var farReply = &command{commandRow: commandRow{run: func(s *session, args [][]byte) error {
	s.out.Raw(args[1])
	return nil
}}}

// farUnknown is the command of another version that this node does not know.
var farUnknown = &command{commandRow: commandRow{run: func(_ *session, args [][]byte) error {
	return NewReplyError("ERR", "the node that keeps the counters does not know the command '"+ClipArgument(args[0])+"': run one version on all nodes")
}}}

// runFar runs what a session of any node sends to this one, the owner. wrote says that it has changed counters.
func (s *Server) runFar(request []byte) (reply []byte, wrote bool) {
	var out bytes.Buffer
	far := &session{ctx: context.Background(), server: s, far: true, out: NewWriter(&out), counters: s.counters.View(), millis: s.clock().UnixMilli()}
	far.out.SetVersion(int(request[0] &^ farTransaction))
	size := len(request) - 1
	in := NewReader(bytes.NewReader(request[1:]), ProtocolLimits{Buffer: size, Request: size, Args: 1 << 18, Bulk: size, Inline: size}, nil)
	if err := in.Fill(); err != nil {
		return nil, false
	}
	var all []queued
	for args, err := in.Next(); args != nil && err == nil; args, err = in.Next() {
		c := farReply
		if string(args[0]) != farReplyName {
			if c = s.commands.find(args[0]); c == nil {
				c = farUnknown // it has a reply, so that those after it stay in their places
			}
		}
		all = append(all, queued{c, slices.Clone(args)})
	}
	deletions := map[int]*deletion{}
	for i := range all {
		if q := &all[i]; q.command.flags.has(deletes) {
			deleted, args := new(deletion), q.args[:1]
			for pairs := q.args[1:]; len(pairs) > 1; pairs = pairs[2:] {
				args, deleted.existed = append(args, pairs[0]), append(deleted.existed, string(pairs[1]) == "1")
			}
			q.args, deletions[i] = args, deleted
		}
	}
	if request[0]&farTransaction != 0 {
		far.runTogether(all, deletions)
	} else {
		for i := range all {
			far.runQueued(&all[i], deletions[i])
		}
	}
	_ = far.out.Flush() // a Buffer takes all
	if out.Len() > mostFarBytes {
		return nil, far.counters.Wrote
	}
	return out.Bytes(), far.counters.Wrote
}

// countHits counts an addition to a counter as hits, if the key begins with Config.CountPrefix.
func (s *session) countHits(key []byte, n int64) error {
	prefix := s.server.cfg.CountPrefix
	if prefix == "" || n <= 0 || !bytes.HasPrefix(key, []byte(prefix)) {
		return nil
	}
	if err := s.server.service.Backend().Engine.HitN(string(key), uint64(n)); err != nil {
		code := api.CodeOverloaded
		if e, ok := errors.AsType[*engine.Error](err); ok {
			code = e.Code
		}
		return &api.Error{Code: code, Message: "the counter is unchanged, because its hit could not be counted: " + err.Error()}
	}
	return nil
}
