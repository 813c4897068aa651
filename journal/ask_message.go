package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-counter/weir/internal/wire"
)

// A message that neither this node's replica nor the leader's can read may be sound
// in another: all nodes are asked for it by its sequence, an unsigned varint, and
// who has it answers.
const messageSubject = "weir.message"

// serveMessages answers other nodes from this one's replica, until the connection
// closes.
func (j *Journal) serveMessages(ctx context.Context) error {
	_, err := j.server.Conn().Subscribe(messageSubject, func(msg *nats.Msg) {
		r := wire.NewReader(msg.Data)
		sequence := r.Uvarint()
		if !r.Done() {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, messageTimeout)
		defer cancel()
		found, err := j.store.GetNear(ctx, sequence)
		if err != nil {
			return // another node may have it
		}
		if err := msg.Respond(found); err != nil {
			j.log.Warn("journal: could not answer a node that asked for a missing message", "error", err)
		}
	})
	return err
}

// messageTimeout bounds the wait for a message that perhaps nobody has.
const messageTimeout = 500 * time.Millisecond

// mostUnanswered is for how many messages a process asks in vain: where much is
// lost to all, a start must not take hours.
const mostUnanswered = 200

var errNobodyAnswers = errors.New("no node answered for too many missing messages")

// askMessage asks all nodes for a message.
func (j *Journal) askMessage(ctx context.Context, sequence uint64) ([]byte, error) {
	if j.unanswered.Load() >= mostUnanswered {
		return nil, errNobodyAnswers
	}
	ctx, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	msg, err := j.server.Conn().RequestWithContext(ctx, messageSubject, binary.AppendUvarint(nil, sequence))
	if err != nil {
		j.unanswered.Add(1)
		return nil, err
	}
	j.unanswered.Store(0)
	return msg.Data, nil
}
