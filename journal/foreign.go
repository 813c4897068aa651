package journal

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-counter/weir/journal/record"
)

// handedOver is a flush of a backup on its way to the goroutine that writes flushes.
type handedOver struct {
	parts [][]byte
	done  chan error // holds one
}

// roomPoll is how often a restore looks whether the journal was trimmed.
const roomPoll = 50 * time.Millisecond

// handOver has a flush written between those of this node, and returns when it is in the
// journal. It leaves room for hits: a backup waits until there is more.
func (j *Journal) handOver(ctx context.Context, parts [][]byte) error {
	for !j.space.Room().Takes(j.space.Retained(), int64(record.SizeOf(parts))) {
		j.checkpoints.LookAtSize(ctx)
		select {
		case <-ctx.Done():
			return fmt.Errorf("the journal has no room for more: %w", context.Cause(ctx))
		case <-j.failed:
			return j.failure
		case <-time.After(roomPoll):
		}
	}
	h := handedOver{parts, make(chan error, 1)}
	select {
	case j.handed <- h:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-j.failed:
		return j.failure
	case <-j.stopped:
		return errClosing
	}
	select {
	case err := <-h.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// takeOver writes a flush of a backup. Among nodes it is applied when it comes back; alone
// nobody else does, and before the next flush, whose snapshots say that they have it.
func (j *Journal) takeOver(ctx context.Context, parts [][]byte) error {
	j.flusher.BeginForeign(time.Now(), parts)
	if err := j.publish(ctx); err != nil {
		return err
	}
	j.flusher.End()
	if j.cfg.clustered() {
		return nil
	}
	return j.replica.ApplyAlone(parts)
}
