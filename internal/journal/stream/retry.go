package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	patience   = 2 * time.Minute // for a stream without a leader: an election takes up to 9 s, and much longer on a machine that is overloaded
	retryEvery = 50 * time.Millisecond
	AskTime    = 3 * time.Second // a request may be lost on its way
	firstAsk   = AskTime / 6     // servers without a leader drop requests, and may have one soon
)

// RetryUnavailable repeats a request while nobody answers it, as in a cluster whose
// stream has no leader for the moment. Each request has twice the time of the one before,
// from firstAsk to AskTime.
func RetryUnavailable(ctx context.Context, ask func(context.Context) error) error {
	wait := firstAsk / 2
	return retryWhileUnavailable(ctx, func() error {
		wait = min(2*wait, AskTime)
		return askWithin(ctx, wait, ask)
	})
}

// askWithin gives a request so much time at most. A server that leads no more, or does not yet,
// drops what it is asked: without a bound of its own a request waits for as long as ctx lasts,
// at a start for ever.
func askWithin(ctx context.Context, wait time.Duration, ask func(context.Context) error) error {
	asking, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := ask(asking)
	if err != nil && ctx.Err() == nil && asking.Err() != nil {
		err = errors.Join(nats.ErrTimeout, err)
	}
	return err
}

// retryWhileUnavailable is RetryUnavailable for what takes as long as it takes; each request in
// it has a bound of its own (askWithin).
func retryWhileUnavailable(ctx context.Context, ask func() error) error {
	var end <-chan time.Time
	for {
		err := ask()
		if err == nil || !IsUnavailable(err) {
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
		case <-time.After(retryEvery):
		}
	}
}

// NotYetCreated makes a bucket that is not there an error that is worth another try: of
// nodes that start together, one makes it while others see it come.
func NotYetCreated(err error) error {
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return errors.Join(nats.ErrTimeout, err)
	}
	return err
}

// CodeNoPeers is JetStream's for a stream or bucket that can't have its replicas: of nodes that
// start together, some are not there yet.
const CodeNoPeers = 10005

// IsUnavailable tells whether an error says that no server could answer, or too few. A deadline is
// the client's own for one request: who asks looks at that of ctx. A stream that is not there is one
// too: what asks for it has found or made it before, and a server that has just become a leader may
// not know of it yet. Who asks whether it is there looks at the error first.
func IsUnavailable(err error) bool {
	if code, is := apiCode(err); code == http.StatusServiceUnavailable || is == CodeNoPeers || is == int(jetstream.JSErrCodeStreamNotFound) {
		return true
	}
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) ||
		errors.Is(err, nats.ErrDisconnected) || errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, jetstream.ErrNoHeartbeat)
}

// apiCode is what a server answered instead; 0, 0: it did not. What watches a bucket or reads
// an object has the errors of the client's older package.
func apiCode(err error) (code, is int) {
	var api *jetstream.APIError
	var older *nats.APIError
	switch {
	case errors.As(err, &api):
		return api.Code, int(api.ErrorCode)
	case errors.As(err, &older):
		return older.Code, int(older.ErrorCode)
	}
	return 0, 0
}

// A message is read from any replica where that is enough: this node's own is
// near. But one that has just been started, or replaced by an empty one, answers
// before it has caught up: what it does not have may well be there. So what a
// start goes by, and what any replica does not find, is asked of the leader.

// wanted names a message: by its sequence, or as the last of a subject.
type wanted struct {
	Sequence uint64 `json:"seq,omitempty"`
	LastOf   string `json:"last_by_subj,omitempty"`
}

// fromLeader reads a message of a stream, or returns ErrMsgNotFound.
func (s *streams) fromLeader(ctx context.Context, stream string, which wanted) (sequence uint64, data []byte, err error) {
	request, err := json.Marshal(which)
	if err != nil {
		return 0, nil, err
	}
	msg, err := s.js.Conn().RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+stream, request)
	if err != nil {
		return 0, nil, err
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Sequence uint64 `json:"seq"`
			Data     []byte `json:"data"`
		} `json:"message"`
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return 0, nil, fmt.Errorf("the leader of %s: %w", stream, err)
	}
	switch {
	case answer.Error == nil:
		return answer.Message.Sequence, answer.Message.Data, nil
	case answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return 0, nil, jetstream.ErrMsgNotFound
	}
	return 0, nil, answer.Error
}
