package stream

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// What others may still make possible is asked for again; what they never will is not.
func TestRetryUnavailable(t *testing.T) {
	for _, c := range []struct {
		err   error
		again bool
	}{
		{nats.ErrNoResponders, true},
		{&jetstream.APIError{Code: 503}, true},
		{&nats.APIError{Code: 503, ErrorCode: 10008, Description: "JetStream system temporarily unavailable"}, true}, // of a watch
		{jetstream.ErrBucketNotFound, false},
		{jetstream.ErrStreamNotFound, true}, // by a server that does not know of it yet
		{nats.ErrStreamNotFound, true},
		{&jetstream.APIError{Code: 404, ErrorCode: 10059, Description: "stream not found"}, true},
		{&nats.APIError{Code: 400, ErrorCode: 10058, Description: "stream name already in use"}, false},
		{&jetstream.APIError{Code: 400, ErrorCode: 10005, Description: "no suitable peers for placement, peer offline"}, true},
		{&jetstream.APIError{Code: 400, ErrorCode: 10058, Description: "stream name already in use"}, false},
		{errors.New("another"), false},
	} {
		asked := 0
		err := RetryUnavailable(t.Context(), func(context.Context) error {
			if asked++; asked == 1 {
				return c.err
			}
			return nil
		})
		if (asked == 2) != c.again || (err == nil) != c.again {
			t.Errorf("%v: asked %d times: %v", c.err, asked, err)
		}
	}
}
