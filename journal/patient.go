package journal

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	patience  = 30 * time.Second // for a stream without a leader: one that is lost takes up to 9 s
	patientAt = 50 * time.Millisecond
	oneAsk    = 3 * time.Second // a request may be lost on its way
)

// patiently repeats a request while nobody answers it, as in a cluster whose
// stream has no leader for the moment.
func patiently(ctx context.Context, ask func(context.Context) error) error {
	return patientlyUntil(ctx, func() error {
		asking, cancel := context.WithTimeout(ctx, oneAsk)
		defer cancel()
		err := ask(asking)
		if err != nil && ctx.Err() == nil && asking.Err() != nil {
			err = errors.Join(nats.ErrTimeout, err)
		}
		return err
	})
}

// patientlyUntil is patiently for what takes as long as it takes.
func patientlyUntil(ctx context.Context, ask func() error) error {
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

// beingMade makes a bucket that is not there an error that is worth another try: of
// nodes that start together, one makes it while others see it come.
func beingMade(err error) error {
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrBucketNotFound) {
		return errors.Join(nats.ErrTimeout, err)
	}
	return err
}

// nobody tells whether an error says that no server could answer. A deadline is
// the client's own for one request: who asks looks at that of ctx.
func nobody(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) && api.Code == http.StatusServiceUnavailable {
		return true
	}
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) ||
		errors.Is(err, nats.ErrTimeout) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, jetstream.ErrNoHeartbeat)
}
