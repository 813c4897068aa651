package peers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/replica"
	"github.com/weir-counter/weir/journal/stream"
)

// A message that neither this node's replica nor the leader's can read may be sound
// in another: all nodes are asked for it by its sequence, an unsigned varint, and
// who has it answers.
const messageSubject = "weir.message"

// messageTimeout bounds the wait for a message that perhaps nobody has.
const messageTimeout = 500 * time.Millisecond

// mostUnanswered is for how many messages a process asks in vain: where much is
// lost to all, a start must not take hours.
const mostUnanswered = 200

var errNobodyAnswers = errors.New("no node answered for too many missing messages")

// Missing gets what the journal does not give: messages, and flushes of other nodes. It is safe
// for many goroutines.
type Missing struct {
	conn  *nats.Conn
	store *stream.Store
	log   *slog.Logger

	unanswered atomic.Int64 // messages that no node had
}

// NewMissing returns one for a journal.
func NewMissing(conn *nats.Conn, store *stream.Store, log *slog.Logger) *Missing {
	return &Missing{conn: conn, store: store, log: log}
}

// Serve answers other nodes from this one's replica, until the connection closes.
func (m *Missing) Serve(ctx context.Context) error {
	_, err := m.conn.Subscribe(messageSubject, func(msg *nats.Msg) {
		r := wire.NewReader(msg.Data)
		sequence := r.Uvarint()
		if !r.Done() {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, messageTimeout)
		defer cancel()
		found, err := m.store.GetNear(ctx, sequence)
		if err != nil {
			return // another node may have it
		}
		if err := msg.Respond(found); err != nil {
			m.log.Warn("journal: could not answer a node that asked for a missing message", "error", err)
		}
	})
	return err
}

// Ask asks all nodes for a message, for half a second at most.
func (m *Missing) Ask(ctx context.Context, sequence uint64) ([]byte, error) {
	if m.unanswered.Load() >= mostUnanswered {
		return nil, errNobodyAnswers
	}
	ctx, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	msg, err := m.conn.RequestWithContext(ctx, messageSubject, binary.AppendUvarint(nil, sequence))
	if err != nil {
		m.unanswered.Add(1)
		return nil, err
	}
	m.unanswered.Store(0)
	return msg.Data, nil
}

// Source is what a replica asks for while it follows, until ctx is done.
func (m *Missing) Source(ctx context.Context) replica.Source { return source{ctx, m} }

type source struct {
	ctx context.Context
	m   *Missing
}

func (s source) Message(sequence uint64) (data []byte, err error) {
	err = stream.RetryUnavailable(s.ctx, func(ctx context.Context) (err error) {
		data, err = s.m.store.Get(ctx, sequence)
		return err
	})
	if !errors.Is(err, jetstream.ErrMsgNotFound) {
		return data, err
	}
	first, _, _, err := s.m.store.Bounds(s.ctx)
	switch {
	case err != nil:
		return nil, err
	case first > sequence:
		return nil, replica.ErrLeftBehind
	}
	if data, err = s.m.Ask(s.ctx, sequence); err == nil {
		s.m.log.Error("journal: the leader of the journal can't read a message that another node has: restart the leader, so that it finds and copies all that is damaged",
			"message", sequence, "leader", s.m.store.Leader())
		return data, nil
	}
	s.m.log.Error("journal: no replica has a message; asking its origin to resend it", "message", sequence)
	return nil, replica.ErrLost
}

func (s source) Resend(of record.Incarnation, flush, part uint64) ([]byte, error) {
	data, err := askResend(s.ctx, s.m.conn, of, flush, part)
	if err != nil {
		s.m.log.Warn("journal: could not get a missing flush from its origin", "origin", fmt.Sprintf("%016x", of.Origin), "flush", flush, "error", err)
	}
	return data, err
}
