package replica

import (
	"context"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/wire"
)

// FlushPosition is a place in a journal.
type FlushPosition struct {
	// After is the message after which to read on.
	After uint64
	// Heads are the last flushes that were handed out, by origin. Some may be after After: what
	// comes of them again is dropped. Of an origin that is not there, the first flush that comes
	// is taken, whatever its number.
	Heads map[uint64]record.Head
}

// tailWaitMost is for how many messages a FlushPosition stays before a flush whose last part has not come:
// after that its first parts are to be had from its origin only. A restored backup is waited for until it is complete, or undone.
const tailWaitMost = 1000

// maxOrigins bounds what is read of an encoded FlushPosition.
const maxOrigins = 1 << 20

// TailFlushes hands out each whole flush of each origin once, after those before it of its origin. It is not safe for many goroutines.
type TailFlushes struct {
	read    uint64 // the last message
	heads   map[uint64]record.Head
	pending map[uint64]*pending // by origin
	lost    uint64

	requests requests
	aware    bool // of the requests in messages before the position
}

// pending is a flush whose last part has not come.
type pending struct {
	began uint64 // message of its first part
	parts []record.Part
}

// NewTailFlushes returns Flushes that goes on after at.
func NewTailFlushes(at FlushPosition) *TailFlushes {
	heads := maps.Clone(at.Heads)
	if heads == nil {
		heads = map[uint64]record.Head{}
	}
	return &TailFlushes{read: at.After, heads: heads, pending: map[uint64]*pending{}}
}

// Next is the message to read now.
func (t *TailFlushes) Next() uint64 { return t.read + 1 }

// Lost is how many parts of flushes were missing and passed over.
func (t *TailFlushes) Lost() uint64 { return t.lost }

// Has tells whether a flush was handed out, or one after it of the same origin.
func (t *TailFlushes) Has(p record.Part) bool {
	head, known := t.heads[p.Origin]
	return known && !head.Before(record.Head{Epoch: p.Epoch, Flush: p.Flush})
}

// Learn notes the requests that a journal, which begins with message first, had before the position. Call it before Take. Calls after
// one that succeeded do nothing.
func (t *TailFlushes) Learn(ctx context.Context, from TailSource, first uint64) error {
	if t.aware {
		return nil
	}
	err := t.requests.learn(ctx, from, first, t.read)
	t.aware = err == nil
	return err
}

// Skip goes on after a message that nobody has.
func (t *TailFlushes) Skip(message uint64) { t.read = max(t.read, message) }

// Missing is the part that should have come before p, if one did not: to be had from its origin, and
// taken first. Where it is not, Take goes on without it.
func (t *TailFlushes) Missing(p record.Part) (flush, number uint64, is bool) {
	head, known := t.heads[p.Origin]
	if !known || p.Epoch < head.Epoch {
		return 0, 0, false
	}
	next, have := head.Flush+1, uint64(0)
	if p.Epoch > head.Epoch {
		next = 1
	}
	if open := t.pending[p.Origin]; open != nil && open.parts[0].Epoch == p.Epoch {
		next, have = open.parts[0].Flush, uint64(len(open.parts))
	}
	return next, have, p.Flush > next || p.Flush == next && p.Number > have
}

// Take takes the part that a message is, and returns the parts of the flush that it makes whole, nil
// if it makes none. Parts that were missing are taken with the message that told of them.
func (t *TailFlushes) Take(message uint64, p record.Part) (flush []record.Part) {
	t.read = max(t.read, message)
	if t.Has(p) {
		return nil
	}
	if head, known := t.heads[p.Origin]; known && p.Epoch > head.Epoch { // what came of the life before was never acknowledged
		t.heads[p.Origin] = record.Head{Epoch: p.Epoch}
	}
	open := t.pending[p.Origin]
	if open != nil {
		switch first := open.parts[0]; {
		case p.Epoch < first.Epoch || p.Epoch == first.Epoch && (p.Flush < first.Flush || p.Flush == first.Flush && p.Number < uint64(len(open.parts))):
			return nil // a repeat
		case p.Epoch > first.Epoch:
			t.heads[p.Origin] = record.Head{Epoch: p.Epoch}
			open = nil
		case p.Flush > first.Flush || p.Number > uint64(len(open.parts)):
			t.lost++
			t.heads[p.Origin] = record.Head{Epoch: first.Epoch, Flush: first.Flush}
			delete(t.pending, p.Origin)
			return t.Take(message, p)
		}
	}
	if open == nil {
		if p.Number > 0 { // its first parts are gone
			t.lost++
			t.heads[p.Origin] = record.Head{Epoch: p.Epoch, Flush: p.Flush}
			delete(t.pending, p.Origin)
			return nil
		}
		if flush, _, gap := t.Missing(p); gap && p.Flush > flush {
			t.lost += p.Flush - flush
		}
		open = &pending{began: message}
		t.pending[p.Origin] = open
	}
	if open.parts = append(open.parts, p); !p.Last {
		return nil
	}
	delete(t.pending, p.Origin)
	t.heads[p.Origin] = record.Head{Epoch: p.Epoch, Flush: p.Flush}
	if less := t.requests.settle(open.parts); less != nil {
		for _, p := range open.parts {
			for i := range p.Batches {
				p.Batches[i] = p.Batches[i].Without(less)
			}
		}
	}
	return open.parts
}

// Position is where to go on.
func (t *TailFlushes) Position() FlushPosition {
	at := FlushPosition{After: t.read, Heads: maps.Clone(t.heads)}
	for _, open := range t.pending {
		if open.parts[0].Restored || t.read-open.began < tailWaitMost {
			at.After = min(at.After, open.began-1)
		}
	}
	return at
}

// Append encodes a position: After, how many origins, and of each 8 bytes, epoch and flush.
func (at FlushPosition) Append(b []byte) []byte {
	b = binary.AppendUvarint(b, at.After)
	b = binary.AppendUvarint(b, uint64(len(at.Heads)))
	for _, origin := range slices.Sorted(maps.Keys(at.Heads)) {
		b = binary.LittleEndian.AppendUint64(b, origin)
		b = binary.AppendUvarint(b, at.Heads[origin].Epoch)
		b = binary.AppendUvarint(b, at.Heads[origin].Flush)
	}
	return b
}

// ReadFlushPosition reads what Append wrote; whether it could, r says.
func ReadFlushPosition(r *wire.Reader) (at FlushPosition) {
	at.After = r.Uvarint()
	at.Heads = map[uint64]record.Head{}
	for range r.AtMost(maxOrigins) {
		origin := r.Uint64()
		at.Heads[origin] = record.Head{Epoch: r.Uvarint(), Flush: r.Uvarint()}
		if r.Failed() {
			break
		}
	}
	return at
}
