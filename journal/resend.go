package journal

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// A request for a part of a flush goes to the subject of its origin: epoch,
// flush, part, as unsigned varints. The answer is the part, or empty.
func resendSubject(origin uint64) string { return fmt.Sprintf("weir.resend.%016x", origin) }

// serveResends answers other nodes from the ring, until the connection closes.
func (j *Journal) serveResends() error {
	_, err := j.server.Conn().Subscribe(resendSubject(j.life.origin), func(msg *nats.Msg) {
		r := newReader(msg.Data)
		epoch, flush, part := r.Uvarint(), r.Uvarint(), r.Uvarint()
		var answer []byte
		if r.end() == nil && epoch == j.life.epoch {
			answer = j.replica.ring.get(flush, part)
		}
		if err := msg.Respond(answer); err != nil {
			j.log.Warn("journal: could not answer a node that asked for a missing flush", "error", err)
		}
	})
	return err
}

// resendTimeout bounds the wait for an origin that may be gone.
const resendTimeout = time.Second

func (j *Journal) askResend(ctx context.Context, of life, flush, part uint64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, resendTimeout)
	defer cancel()
	ask := binary.AppendUvarint(nil, of.epoch)
	ask = binary.AppendUvarint(ask, flush)
	ask = binary.AppendUvarint(ask, part)
	msg, err := j.server.Conn().RequestWithContext(ctx, resendSubject(of.origin), ask)
	if err != nil {
		return nil, err
	}
	if len(msg.Data) == 0 {
		return nil, fmt.Errorf("it is older than the %d MiB that the origin keeps", ringBytes>>20)
	}
	return msg.Data, nil
}
