package journal

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	patience  = 30 * time.Second // for a stream without a leader: one that is lost takes up to 9 s
	patientAt = 50 * time.Millisecond
)

// patiently repeats a request while nobody answers it, as in a cluster whose
// stream has no leader for the moment.
func patiently(ctx context.Context, ask func() error) error {
	var end <-chan time.Time
	for {
		err := ask()
		if err == nil || !nobody(err) {
			return err
		}
		if end == nil {
			end = time.After(patience)
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-end:
			return err
		case <-time.After(patientAt):
		}
	}
}

// nobody tells whether an error says that no server could answer.
func nobody(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) ||
		errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrNoHeartbeat)
}
