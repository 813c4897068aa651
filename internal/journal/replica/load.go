package replica

import (
	"fmt"
	"slices"
	"time"

	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/journal/record"
)

// LoadSnapshot puts a partition's snapshot into the engine. Several goroutines may load different partitions at once.
// Then resume must be called.
func (r *Replica) LoadSnapshot(snap record.Snapshot) error {
	if snap.Origin != r.audit.Origin && r.audit.Alone {
		return fmt.Errorf("%w: of origin %x in place of %x", record.ErrDamaged, snap.Origin, r.audit.Origin)
	}
	return LoadInto(r.engine, snap, r.Sets)
}

// LoadInto is LoadSnapshot for any engine. The clock sets are from the directory that took the snapshot.
func LoadInto(e *engine.Engine, snap record.Snapshot, sets record.ClockSets) error {
	set := sets.Since(snap.From)
	if err := e.Receipts().Load(snap.Receipts, false, set); err != nil {
		return err
	}
	return e.LoadState(snap.Partition, snap.State, set)
}

// Resume goes on after the snapshots that were loaded, by partition, nil where
// there was none. It returns the first message to apply, of those from first to
// last that the journal has. What is applied is counted by EndReplay at the latest.
func (r *Replica) Resume(snaps []*record.Snapshot, first, last uint64) (start uint64) {
	a := r.audit
	a.together = replayBytes
	if start = a.ResumeOf(nil, snaps, last); start < first {
		a.find(fmt.Sprintf("journal messages %d to %d", start, first-1), "trimmed, but some partitions have no sound snapshot after them", "the hits of those partitions")
		start = first
		a.Stream = start - 1
	}
	return start
}

// Note adds to what the audit finds.
func (r *Replica) Note(found ...record.Finding) {
	r.audit.Findings = append(r.audit.Findings, found...)
}

// replayBytes is how much of the journal a start, or a node that takes partitions over, counts together.
const replayBytes = 16 << 20

// Replay takes the next message of the journal, at a start where nobody else is asked for
// what is missing.
func (r *Replica) Replay(sequence uint64, data []byte) error {
	return r.audit.Apply(r.holding, sequence, data)
}

// EndReplay counts what is not counted yet, and checks that the journal reaches as far as it is known to have reached.
// The server says that its last message is last. EndReplay returns all findings of the start.
func (r *Replica) EndReplay(reached, last uint64) ([]record.Finding, error) {
	r.audit.together = 0
	if err := r.audit.flush.count(r.audit, r.to); err != nil {
		return nil, err
	}
	r.audit.End(reached, last)
	return r.audit.Findings, nil
}

// Replayed are the flushes that were applied, the messages and batches that came a second
// time, and the flushes that were never whole.
func (r *Replica) Replayed() (flushes, repeats, unfinished uint64) {
	return r.audit.flushes, r.audit.repeats, r.audit.unfinished
}

// Rebased returns a snapshot of a partition from a message on, which needs no earlier messages. What was lost until
// then is gone for good. It belongs to a new life.
func (r *Replica) Rebased(l record.Incarnation, partition int, from uint64) record.Snapshot {
	r.engine.Cut(partition, &r.cut, true)
	at := &r.audit.progressOf(l.Origin).positions[partition]
	at.Epoch, at.Lost = l.Epoch, 0
	snap := record.Snapshot{Incarnation: l, Partition: partition, Positions: r.audit.positionsOf(partition, nil), From: from, State: r.cut.State}
	if partition == 0 {
		snap.Receipts, snap.Requests = r.engine.Receipts().All(), r.audit.requests.list(time.Time{})
	}
	return snap
}

// Sink is where the batches of a flush that is complete go.
type Sink interface {
	// Wants reports whether batches of a partition matter. Others are not audited.
	Wants(partition int) bool

	// Count takes a batch that is new; own says that this life of the process wrote
	// it. Batches of different partitions come side by side.
	Count(b record.Batch, own, deciding bool) error

	// Receipts takes the receipts of a flush of another life. The flush was whole with the given message of the
	// journal. With deciding, it was cut a moment ago.
	Receipts(list [][]byte, message uint64, deciding bool) error
}

// Apply takes the next message of the journal, and counts what it completes:
// partitions side by side, the batches of each in order.
func (a *Auditor) Apply(to Sink, sequence uint64, data []byte) error {
	parts, err := a.message(sequence, data)
	if err != nil {
		return err
	}
	return a.applyParts(to, parts)
}

// applyParts counts a flush that is complete, or keeps it until it is counted together with others.
func (a *Auditor) applyParts(to Sink, parts []record.Part) error {
	if a.flush.add(a, to, parts); a.flush.bytes < a.together {
		return nil
	}
	return a.flush.count(a, to)
}

// group is a list of flushes that are audited, and counted together. It counts partition by partition, so that a
// partition's keys stay in the processor's cache.
type group struct {
	batches  []newBatch // in the order in which they came
	first    []int      // of each partition that has any: its first batch
	last     []int      // by partition: its last batch, and one more; 0: it has none
	receipts []received
	bytes    int  // of messages, and of what is kept of them
	replaces bool // a clear has batches that take the place of what it clears
}

// newBatch is one that was not counted before.
type newBatch struct {
	record.Batch
	own  bool // of this life of the process
	next int  // the next batch of the same partition; 0: none
}

// received are receipts of one flush of another life.
type received struct {
	list    [][]byte
	message uint64 // with which it was whole
}

// batchBytes is about how much a batch takes in addition to its entries.
const batchBytes = 160

// add audits a flush that is complete, and takes what is new.
func (g *group) add(a *Auditor, to Sink, parts []record.Part) {
	if g.last == nil {
		g.last = make([]int, a.Partitions)
	}
	first := len(g.batches)
	less := a.requests.settle(parts)
	for _, p := range parts {
		own := p.Incarnation == a.self
		g.batches = slices.Grow(g.batches, len(p.Batches))
		for _, b := range p.Batches {
			if !to.Wants(b.Partition) || !a.batch(p.Incarnation, b) {
				continue
			}
			if less != nil {
				b = b.Without(less)
			}
			b.CutAt, b.Message = p.At, a.Stream
			if p.Restored && g.follows(b, first) {
				continue
			}
			at := len(g.batches)
			if last := g.last[b.Partition]; last > 0 {
				g.batches[last-1].next = at
			} else {
				g.first = append(g.first, at)
			}
			g.last[b.Partition] = at + 1
			g.batches = append(g.batches, newBatch{Batch: b, own: own})
			g.bytes += len(b.Entries) + batchBytes
		}
		if !own && len(p.Receipts) > 0 {
			g.receipts = append(g.receipts, received{p.Receipts, a.Stream})
		}
	}
}

// follows adds a batch of a restored backup to the clear before it, if the same flush has one of the same partition.
// Both count together (record.Batch.Then). The flush's first batch is first.
func (g *group) follows(b record.Batch, first int) bool {
	last := g.last[b.Partition] - 1
	if last < first || g.batches[last].Kind != record.KindClear {
		return false
	}
	g.replaces = true
	g.batches[last].Then = append(g.batches[last].Then, b)
	g.bytes += len(b.Entries) + batchBytes
	return true
}

// count counts what was taken: partitions side by side, the batches of each in order. The group is empty then.
func (g *group) count(a *Auditor, to Sink) (err error) {
	defer g.empty()
	if !g.replaces || a.AtOnce == nil {
		return g.countAll(a, to)
	}
	a.AtOnce(func() { err = g.countAll(a, to) })
	return err
}

func (g *group) countAll(a *Auditor, to Sink) error {
	deciding := a.self != (record.Incarnation{}) // else nobody decides on limits yet
	if err := concurrency.Do(len(g.first), func(i int) error {
		for at, more := g.first[i], true; more; at, more = g.batches[at].next, g.batches[at].next > 0 {
			if err := to.Count(g.batches[at].Batch, g.batches[at].own, deciding); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for _, r := range g.receipts {
		if err := to.Receipts(r.list, r.message, deciding); err != nil {
			return err
		}
	}
	return nil
}

// empty resets the group, and keeps the capacity for as many batches as an ordinary flush has.
func (g *group) empty() {
	if cap(g.batches) > 2*len(g.last) {
		*g = group{}
		return
	}
	for _, at := range g.first {
		g.last[g.batches[at].Partition] = 0
	}
	clear(g.batches) // of messages
	clear(g.receipts)
	g.batches, g.first, g.receipts, g.bytes, g.replaces = g.batches[:0], g.first[:0], g.receipts[:0], 0, false
}
