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

// maxOrigins bounds what is read of an encoded FlushPosition.
const maxOrigins = 1 << 20

// TailFlushes hands out each whole flush of each origin once, after those before it of its origin. It is not safe for many goroutines.
//
// An Auditor without partitions decides what is whole, what came twice and what is missing: so a reader and a replica agree.
type TailFlushes struct {
	audit *Auditor
	lost  uint64
	aware bool // of the requests in messages before the position
}

// NewTailFlushes returns Flushes that goes on after at.
func NewTailFlushes(at FlushPosition) *TailFlushes {
	audit := NewAuditor(0, 0)
	audit.Alone, audit.Stream = false, at.After
	for origin, head := range at.Heads {
		l := audit.progressOf(origin)
		l.epoch, l.flush, l.known = head.Epoch, head.Flush, true
	}
	return &TailFlushes{audit: audit}
}

// Next is the message to read now.
func (t *TailFlushes) Next() uint64 { return t.audit.Stream + 1 }

// Lost is how often parts of flushes were missing and passed over.
func (t *TailFlushes) Lost() uint64 { return t.lost }

// Has tells whether a flush was handed out, or one after it of the same origin.
func (t *TailFlushes) Has(p record.Part) bool {
	l := t.audit.byOrigin[p.Origin]
	return l != nil && l.known && !record.Head{Epoch: l.epoch, Flush: l.flush}.Before(record.Head{Epoch: p.Epoch, Flush: p.Flush})
}

// Learn notes the requests that a journal, which begins with message first, had before the position. Call it before Take. Calls after
// one that succeeded do nothing.
func (t *TailFlushes) Learn(ctx context.Context, from TailSource, first uint64) error {
	if t.aware {
		return nil
	}
	err := t.audit.requests.learn(ctx, from, first, t.audit.Stream)
	t.aware = err == nil
	return err
}

// Skip goes on after a message that nobody has.
func (t *TailFlushes) Skip(message uint64) { t.audit.Stream = max(t.audit.Stream, message) }

// Missing is the part that should have come before p, if one did not: to be had from its origin, and
// taken first. Where it is not, Take goes on without it.
func (t *TailFlushes) Missing(p record.Part) (flush, number uint64, is bool) {
	return t.progressOf(p).gap(p)
}

// progressOf is how far the origin of a part is. The first flush of one that is not known yet may have any number.
func (t *TailFlushes) progressOf(p record.Part) *Progress {
	if t.audit.byOrigin[p.Origin] == nil {
		t.audit.progressOf(p.Origin).known = false
	}
	return t.audit.byOrigin[p.Origin]
}

// Take takes the part that a message is. It returns the parts of the flush that this part completes, or nil. A missing
// part counts with the message that revealed it.
func (t *TailFlushes) Take(message uint64, p record.Part) (flush []record.Part) {
	t.Skip(message)
	flush = t.progressOf(p).part("", p)
	t.lost, t.audit.Findings = t.lost+uint64(len(t.audit.Findings)), nil
	if less := t.audit.requests.settle(flush); less != nil {
		for _, p := range flush {
			for i := range p.Batches {
				p.Batches[i] = p.Batches[i].Without(less)
			}
		}
	}
	return flush
}

// Position is where to go on: before a flush whose last part has not come, as a snapshot is (startOf).
func (t *TailFlushes) Position() FlushPosition {
	return FlushPosition{After: t.audit.startOf().from, Heads: t.audit.heads()}
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
