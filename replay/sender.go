package replay

import (
	"context"
	"errors"

	"github.com/weir-counter/weir/client"
)

// A sender sends the hits of the chunks to a server, in the order of the log and
// one batch at a time. So a sorted log arrives sorted: hits that arrive out of
// their order are late for the server, which costs it more than what several
// requests at once would save here.
type sender struct {
	client  *client.Client
	receipt client.Receipt // so far; read it after run
	chunks  chan *chunk    // those that are sent, in the order of the log
}

// newSender makes a sender for a pool of so many chunks.
func newSender(c *client.Client, pool int) *sender {
	return &sender{client: c, receipt: client.Receipt{Reasons: []client.Rejection{}}, chunks: make(chan *chunk, pool)}
}

// run takes chunks in the order of the log, waits until each is parsed, sends
// its hits and passes it on. After an error, its own or that of a worker, it
// passes them on unsent.
func (s *sender) run(ctx context.Context, order <-chan *chunk, fail func(error)) {
	defer close(s.chunks)
	for c := range order {
		<-c.done
		if ctx.Err() == nil && len(c.hits) > 0 {
			if err := s.send(ctx, c.hits); err != nil {
				fail(err)
			}
		}
		c.done <- struct{}{}
		s.chunks <- c
	}
}

// send takes it for an answer, and not for a failure, that the server counted
// none of a batch: the receipt says why.
func (s *sender) send(ctx context.Context, hits []client.Hit) error {
	receipt, err := s.client.Send(ctx, hits)
	s.receipt.Add(receipt)
	if refused := (*client.Error)(nil); errors.As(err, &refused) && refused.NothingCounted() {
		return nil
	}
	return err
}
