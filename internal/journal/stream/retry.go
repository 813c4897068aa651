package stream

import (
	"context"
	"errors"
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

// askWithin gives a request so much time at most. A server that does not lead drops requests: without a bound of its own, a
// request waits for as long as ctx lasts.
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

// NotYetCreated turns the error for a missing bucket into one that is worth another try. Of
// nodes that start together, one makes the bucket.
func NotYetCreated(err error) error {
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return errors.Join(nats.ErrTimeout, err)
	}
	return err
}

// CodeNoPeers is JetStream's for a stream or bucket that can't have its replicas: of nodes that
// start together, some are not there yet.
const CodeNoPeers = 10005

// IsUnavailable tells whether an error says that no server could answer, or too few. Deadlines are among these: they are the client's own for
// one request, and callers look at ctx first. So is a missing stream: the caller has found or made it before, and a
// server that has just become the leader may not know it yet. A caller that asks whether a stream is there looks at the error first.
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

// FromLeader reads a message of a stream by its sequence, or if that is 0 the last message of a subject. If there is none, the
// error is jetstream.ErrMsgNotFound.
//
// Any replica may be asked for a message: the own node is near. But a replica that has just started or was replaced answers
// before it has caught up. So what it does not find is asked of the leader, and so is all that decides how a node starts.
func FromLeader(ctx context.Context, conn *nats.Conn, stream string, sequence uint64, subject string) (*jetstream.RawStreamMsg, error) {
	js, err := conn.JetStream() // the newer interface asks any replica
	if err != nil {
		return nil, err
	}
	var msg *nats.RawStreamMsg
	if sequence > 0 {
		msg, err = js.GetMsg(stream, sequence, nats.Context(ctx))
	} else {
		msg, err = js.GetLastMsg(stream, subject, nats.Context(ctx))
	}
	if errors.Is(err, nats.ErrMsgNotFound) {
		err = jetstream.ErrMsgNotFound
	}
	if err != nil {
		return nil, err
	}
	return &jetstream.RawStreamMsg{Sequence: msg.Sequence, Header: msg.Header, Data: msg.Data}, nil
}
