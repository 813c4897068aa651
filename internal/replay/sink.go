package replay

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/engine"
)

// gatherAtMost is how many different keys a worker gathers: a few MiB of them.
const gatherAtMost = 1 << 16

// gatherSink counts keys for the report, which lists the keys with the most hits of the whole log. So the time of a hit does not
// matter. A worker gathers the hits of a key, and the engine counts them in one second, within a budget for keys. This is exact for
// a log of any span, and takes half the processor time of counting each hit at its own second.
type gatherSink struct {
	engine *engine.Engine
	at     time.Time // the one second

	index map[string]int // of a key in hits
	hits  []uint64
}

func newGatherSink(e *engine.Engine, at time.Time) *gatherSink {
	return &gatherSink{engine: e, at: at, index: make(map[string]int)}
}

func (s *gatherSink) line(_ int64, n uint64, keys [][]byte) error {
	for _, key := range keys {
		if err := s.add(key, n); err != nil {
			return err
		}
	}
	return nil
}

func (s *gatherSink) add(key []byte, n uint64) error {
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
	block, expected := make([]string, 0, handOverBlock), make([]engine.Expected, 0, handOverBlock)
	count := func() error {
		expected = s.engine.Expect(expected[:0], block)
		for _, key := range expected {
			if _, err := s.engine.HitExpected(s.at, key, s.hits[s.index[key.Key()]]); err != nil {
				return err
			}
		}
		block = block[:0]
		return nil
	}
	for key := range s.index {
		if block = append(block, key); len(block) == handOverBlock {
			if err := count(); err != nil {
				return err
			}
		}
	}
	if err := count(); err != nil {
		return err
	}
	clear(s.index)
	s.hits = s.hits[:0]
	return nil
}

// handOverBlock is how many keys the engine looks for together.
const handOverBlock = 64

func (*gatherSink) flush(*chunk) {}

func (s *gatherSink) close() error { return s.handOver() }

// sendSink collects what is sent to a server. Equal keys of the same second become one hit of n.
type sendSink struct {
	index map[hitKey]int // of a hit in hits
	hits  []client.Hit
}

type hitKey struct {
	at  int64
	key string
}

func newSendSink() *sendSink { return &sendSink{index: make(map[hitKey]int)} }

func (s *sendSink) line(at int64, n uint64, keys [][]byte) error {
	for _, key := range keys {
		if i, ok := s.index[hitKey{at, string(key)}]; ok {
			s.hits[i].N += n
			continue
		}
		h := client.Hit{Key: string(key), N: n, At: time.Unix(at, 0)}
		s.index[hitKey{at, h.Key}] = len(s.hits)
		s.hits = append(s.hits, h)
	}
	return nil
}

// flush gives c its hits for the sender, sorted by time: what is sorted in the log arrives sorted.
func (s *sendSink) flush(c *chunk) {
	s.hits, c.hits = c.hits[:0], s.hits
	clear(s.index)
	slices.SortStableFunc(c.hits, func(a, b client.Hit) int { return a.At.Compare(b.At) })
}

// close has nothing left: every chunk took its own.
func (*sendSink) close() error { return nil }

// A sender sends the hits of the chunks to a server, in the order of the log and one batch at a time, so that a sorted log arrives
// sorted. Late hits cost the server more than what several requests at once would save here.
type sender struct {
	client  *client.Client
	once    bool           // the same hits at the same place in the log count once
	sent    int            // hits so far
	receipt client.Receipt // so far; read it after run
	chunks  chan *chunk    // those that are sent, in the order of the log
}

// newSender returns a sender for a pool of so many chunks. Only regular files are cut at the same places each time.
func newSender(o *Options, pool int) *sender {
	size, err := TotalSize(o.Files)
	return &sender{client: o.To, once: !o.Again && !o.Follow && err == nil && size > 0, receipt: client.Receipt{Reasons: []api.RejectedLine{}}, chunks: make(chan *chunk, pool)}
}

// run takes chunks in the order of the log, waits until each is parsed, sends its hits and passes it on. After an error of the
// sender or of a worker, it passes them on unsent.
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

// send takes it for an answer, and not for a failure, that the server counted none of a batch: the receipt says why.
func (s *sender) send(ctx context.Context, hits []client.Hit) error {
	var receipt client.Receipt
	var err error
	if s.once {
		receipt, err = s.client.SendOnce(ctx, "replay "+strconv.Itoa(s.sent), hits)
	} else {
		receipt, err = s.client.Send(ctx, hits)
	}
	s.sent += len(hits)
	s.receipt.Add(receipt)
	if refused := (*client.Error)(nil); errors.As(err, &refused) && refused.NothingCounted() {
		return nil
	}
	return err
}

// endingReader returns a reader of r whose Read ends with ctx. A Read of the standard input can't be interrupted: the goroutine in it
// is left behind.
func endingReader(ctx context.Context, r io.Reader) io.Reader {
	from, to := io.Pipe()
	context.AfterFunc(ctx, func() { from.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.CopyBuffer(to, struct{ io.Reader }{r}, make([]byte, pipeBytes)) // not by a WriteTo of r, which has a smaller buffer
		to.CloseWithError(err)
	}()
	return from
}

const pipeBytes = 128 << 10
