package replay

import (
	"context"
	"errors"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/client"
)

// gatherAtMost is how many different keys a worker gathers: a few MiB of them.
const gatherAtMost = 1 << 16

// gatherSink counts keys for the report. The report lists the keys with the
// most hits of the whole log, so the time of a hit does not matter here: all
// hits of a key are gathered, and the engine counts them in one second. That
// is exact for a log of any span, needs the least memory per key, and spares
// the engine nearly all calls: counting each hit at its own second took twice
// the processor time of the whole replay. The engine still is what keeps the
// keys within a budget.
type gatherSink struct {
	engine *weir.Engine
	at     time.Time // the one second

	index map[string]int // of a key in hits
	hits  []uint64
}

func newGatherSink(e *weir.Engine, at time.Time) *gatherSink {
	return &gatherSink{engine: e, at: at, index: make(map[string]int)}
}

func (s *gatherSink) add(_ int64, key []byte, n uint64) error {
	if i, ok := s.index[string(key)]; ok {
		s.hits[i] += n
		return nil
	}
	if len(s.hits) == gatherAtMost {
		if err := s.handOver(); err != nil {
			return err
		}
	}
	s.index[string(key)] = len(s.hits)
	s.hits = append(s.hits, n)
	return nil
}

// handOver gives what was gathered to the engine.
func (s *gatherSink) handOver() error {
	for key, i := range s.index {
		if _, err := s.engine.HitAt(s.at, key, s.hits[i]); err != nil {
			return err
		}
	}
	clear(s.index)
	s.hits = s.hits[:0]
	return nil
}

func (*gatherSink) flush(context.Context) error { return nil }

func (s *gatherSink) close() error { return s.handOver() }

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

// close has nothing left: flush sent it.
func (*sendSink) close() error { return nil }

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
