package replay

import (
	"context"
	"errors"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/client"
)

// engineSink counts in the engine of the report.
type engineSink struct{ engine *weir.Engine }

func (s engineSink) add(at int64, key []byte, n uint64) error {
	_, err := s.engine.HitAt(time.Unix(at, 0), view(key), n)
	return err
}

func (engineSink) flush(context.Context) error { return nil }

// sendSink sends to a server. Equal keys of the same second become one hit of
// n: a log repeats itself, so this saves much of the way.
type sendSink struct {
	client *client.Client
	hits   map[hitKey]uint64
	sent   func(client.Receipt)
}

type hitKey struct {
	at  int64
	key string
}

// sendAtMost is how many different hits are gathered before they are sent.
const sendAtMost = 20_000

func newSendSink(c *client.Client, sent func(client.Receipt)) *sendSink {
	return &sendSink{client: c, hits: make(map[hitKey]uint64), sent: sent}
}

func (s *sendSink) add(at int64, key []byte, n uint64) error {
	s.hits[hitKey{at, string(key)}] += n
	return nil
}

// flush sends what the chunk gave, in batches.
func (s *sendSink) flush(ctx context.Context) error {
	batch := make([]client.Hit, 0, min(len(s.hits), sendAtMost))
	for k, n := range s.hits {
		batch = append(batch, client.Hit{Key: k.key, N: n, At: time.Unix(k.at, 0)})
		if len(batch) == sendAtMost {
			if err := s.send(ctx, batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	clear(s.hits)
	if len(batch) == 0 {
		return nil
	}
	return s.send(ctx, batch)
}

// send takes it for an answer, and not for a failure, that the server counted
// none of the batch: the receipt says why.
func (s *sendSink) send(ctx context.Context, batch []client.Hit) error {
	receipt, err := s.client.Send(ctx, batch)
	s.sent(receipt)
	if refused := (*client.Error)(nil); errors.As(err, &refused) && refused.NothingCounted() {
		return nil
	}
	return err
}
