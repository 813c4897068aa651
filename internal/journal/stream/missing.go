package stream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/internal/wire"
)

// A flipped bit on a disk leaves a hole in a replica that nothing reports, at the leader too. So a message that neither the nearest
// replica nor the leader has is asked of all nodes, and one whose replica has it answers. What no replica has, the node that wrote it may
// still have in memory: that is asked for by flush (Source.Resend).
//
// The requests, of unsigned varints:
//
//	weir.message              sequence             the answer is the message; a node without it does not answer
//	weir.resend.ORIGIN        epoch, flush, part   the answer is the part, or empty
const messageSubject = "weir.message"

func resendSubject(origin uint64) string { return fmt.Sprintf("weir.resend.%016x", origin) }

const (
	messageTimeout = 500 * time.Millisecond // for a message that perhaps nobody has
	resendTimeout  = time.Second            // for an origin that may be gone

	// After mostUnanswered messages in a row that no node had, no node is asked for unansweredPause: where much is lost, a start must not
	// take hours.
	mostUnanswered  = 200
	unansweredPause = time.Minute
)

var errNobodyAnswers = errors.New("no node answered for too many missing messages")

// ServeMissing answers other nodes from this node's replica and from the flushes in its memory, until the connection closes. sent
// returns a part of a flush, nil if it is not in memory.
func (s *Store) ServeMissing(own record.Incarnation, sent func(flush, part uint64) []byte) error {
	for subject, answer := range map[string]func(r *wire.Reader) (data []byte, answers bool){
		messageSubject: func(r *wire.Reader) ([]byte, bool) {
			sequence := r.Uvarint()
			if !r.Done() {
				return nil, false
			}
			ctx, cancel := context.WithTimeout(context.Background(), messageTimeout)
			defer cancel()
			data, err := s.getNear(ctx, sequence)
			return data, err == nil
		},
		resendSubject(own.Origin): func(r *wire.Reader) ([]byte, bool) {
			epoch, flush, part := r.Uvarint(), r.Uvarint(), r.Uvarint()
			if !r.Done() || epoch != own.Epoch {
				return nil, true
			}
			return sent(flush, part), true
		},
	} {
		if _, err := s.Conn().Subscribe(subject, func(msg *nats.Msg) {
			if data, answers := answer(wire.NewReader(msg.Data)); answers {
				_ = msg.Respond(data) // whoever asked goes on without
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// Get reads one message from whatever replica has it. The error wraps replica.ErrLeftBehind if it was trimmed, and replica.ErrLost if nobody
// has it.
func (s *Store) Get(ctx context.Context, sequence uint64) (data []byte, err error) {
	err = RetryUnavailable(ctx, func(ctx context.Context) (err error) {
		data, err = s.getNearOrLed(ctx, sequence)
		return err
	})
	if !errors.Is(err, jetstream.ErrMsgNotFound) {
		return data, err
	}
	first, _, _, err := s.Bounds(ctx)
	switch {
	case err != nil:
		return nil, err
	case first > sequence:
		return nil, replica.ErrLeftBehind
	}
	return s.ask(ctx, sequence)
}

// ask asks all nodes for a message that the leader does not have.
func (s *Store) ask(ctx context.Context, sequence uint64) ([]byte, error) {
	if time.Now().UnixNano() < s.silentUntil.Load() {
		return nil, fmt.Errorf("%w: %w", replica.ErrLost, errNobodyAnswers)
	}
	ctx, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	msg, err := s.Conn().RequestWithContext(ctx, messageSubject, binary.AppendUvarint(nil, sequence))
	if err == nil {
		s.unanswered.Store(0)
		s.log.Error("journal: the leader can't read a message that another node has. Restart the leader, so that it finds and replaces what is damaged",
			"message", sequence, "leader", s.Leader())
		return msg.Data, nil
	}
	if s.unanswered.Add(1) >= mostUnanswered {
		s.unanswered.Store(0)
		s.silentUntil.Store(time.Now().Add(unansweredPause).UnixNano())
	}
	s.log.Error("journal: no replica has a message; its hits are lost unless its origin sends them again", "message", sequence)
	return nil, fmt.Errorf("%w: %w", replica.ErrLost, err)
}

// getNearOrLed reads one message from the nearest replica, or from the leader if that replica lacks it.
func (s *Store) getNearOrLed(ctx context.Context, sequence uint64) ([]byte, error) {
	data, err := s.getNear(ctx, sequence)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		msg, err := FromLeader(ctx, s.Conn(), FlushStream, sequence, "")
		if err != nil {
			return nil, err
		}
		return msg.Data, nil
	}
	return data, err
}

// getNear reads one message from any replica, this node's own if it has one: what that replica
// lacks is not found.
func (s *Store) getNear(ctx context.Context, sequence uint64) ([]byte, error) {
	msg, err := s.flushes.GetMsg(ctx, sequence)
	if err != nil {
		return nil, err
	}
	return msg.Data, nil
}

// Source is what a replica asks for while it follows, until ctx is done.
func (s *Store) Source(ctx context.Context) replica.Source { return source{ctx, s} }

type source struct {
	ctx   context.Context
	store *Store
}

func (s source) Message(sequence uint64) (data []byte, err error) {
	return s.store.Get(s.ctx, sequence)
}

// Resend asks an origin for a part of a flush that the journal lost.
func (s source) Resend(origin record.Incarnation, flush, part uint64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(s.ctx, resendTimeout)
	defer cancel()
	ask := binary.AppendUvarint(nil, origin.Epoch)
	ask = binary.AppendUvarint(ask, flush)
	ask = binary.AppendUvarint(ask, part)
	msg, err := s.store.Conn().RequestWithContext(ctx, resendSubject(origin.Origin), ask)
	if err == nil && len(msg.Data) == 0 {
		err = fmt.Errorf("it is older than the %s that the origin keeps", units.FormatSize(replica.ResendBytes))
	}
	if err != nil {
		s.store.log.Warn("journal: could not get a missing flush from its origin", "origin", fmt.Sprintf("%016x", origin.Origin), "flush", flush, "error", err)
		return nil, err
	}
	return msg.Data, nil
}
