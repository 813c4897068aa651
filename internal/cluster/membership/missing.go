package membership

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
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/internal/journal/stream"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/internal/wire"
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

// A request for a part of a flush goes to the subject of its origin: epoch,
// flush, part, as unsigned varints. The answer is the part, or empty.
func resendSubject(origin uint64) string { return fmt.Sprintf("weir.resend.%016x", origin) }

// ServeResends answers other nodes from the resend buffer of this incarnation, until the
// connection closes. sent returns a part of a flush; nil: it is not in the buffer.
func ServeResends(conn *nats.Conn, log *slog.Logger, own record.Incarnation, sent func(flush, part uint64) []byte) error {
	_, err := conn.Subscribe(resendSubject(own.Origin), func(msg *nats.Msg) {
		r := wire.NewReader(msg.Data)
		epoch, flush, part := r.Uvarint(), r.Uvarint(), r.Uvarint()
		var answer []byte
		if r.Done() && epoch == own.Epoch {
			answer = sent(flush, part)
		}
		if err := msg.Respond(answer); err != nil {
			log.Warn("journal: could not answer a node that asked for a missing flush", "error", err)
		}
	})
	return err
}

// resendTimeout bounds the wait for an origin that may be gone.
const resendTimeout = time.Second

// askResend asks an origin for a part of a flush that the journal lost.
func askResend(ctx context.Context, conn *nats.Conn, of record.Incarnation, flush, part uint64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, resendTimeout)
	defer cancel()
	ask := binary.AppendUvarint(nil, of.Epoch)
	ask = binary.AppendUvarint(ask, flush)
	ask = binary.AppendUvarint(ask, part)
	msg, err := conn.RequestWithContext(ctx, resendSubject(of.Origin), ask)
	if err != nil {
		return nil, err
	}
	if len(msg.Data) == 0 {
		return nil, fmt.Errorf("it is older than the %s that the origin keeps", units.FormatSize(replica.ResendBytes))
	}
	return msg.Data, nil
}

// highWaterSubject has the sequence of each flush that was acknowledged, an unsigned varint:
// who follows need not ask all the time. It is a hint: nothing is lost with it but time.
const highWaterSubject = "weir.told"

// HighWater is how far the journal goes, as far as this node was told. It is safe for many
// goroutines.
type HighWater struct {
	conn *nats.Conn
	log  *slog.Logger

	last atomic.Uint64
	news chan struct{} // last has grown
}

// NewHighWater returns one that has heard of nothing yet.
func NewHighWater(conn *nats.Conn, log *slog.Logger) *HighWater {
	return &HighWater{conn: conn, log: log, news: make(chan struct{}, 1)}
}

// Notify tells the other nodes that a flush is in the journal.
func (h *HighWater) Notify(sequence uint64) {
	if err := h.conn.Publish(highWaterSubject, binary.AppendUvarint(nil, sequence)); err != nil {
		h.log.Debug("journal: could not notify the other nodes of a flush; they find it later", "error", err)
	}
}

// Listen takes the hints of all nodes, this one's too, until the connection closes.
func (h *HighWater) Listen() error {
	_, err := h.conn.Subscribe(highWaterSubject, func(msg *nats.Msg) {
		r := wire.NewReader(msg.Data)
		sequence := r.Uvarint()
		if r.Done() {
			h.Hear(sequence)
		}
	})
	return err
}

// Hear wakes the follower if a sequence is news.
func (h *HighWater) Hear(sequence uint64) {
	for was := h.last.Load(); sequence > was; was = h.last.Load() {
		if h.last.CompareAndSwap(was, sequence) {
			select {
			case h.news <- struct{}{}:
			default:
			}
			return
		}
	}
}

// Last is the highest sequence that was heard of; 0: none was.
func (h *HighWater) Last() uint64 { return h.last.Load() }

// News has a value when Last has grown. It has one reader.
func (h *HighWater) News() <-chan struct{} { return h.news }
