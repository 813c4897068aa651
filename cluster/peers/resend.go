package peers

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/replica"
)

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
