package replica

import (
	"fmt"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/parallel"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/journal/record"
)

// LoadSnapshot puts a partition's snapshot into the engine. Those of different
// partitions may be loaded at once; resume follows.
func (r *Replica) LoadSnapshot(snap record.Snapshot) error {
	if snap.Origin != r.audit.Origin && r.audit.Alone {
		return fmt.Errorf("%w: of origin %x in place of %x", record.ErrDamaged, snap.Origin, r.audit.Origin)
	}
	return LoadInto(r.engine, snap, r.Sets)
}

// LoadInto is LoadSnapshot of any engine; sets are those of the directory that the snapshot is of.
func LoadInto(engine *weir.Engine, snap record.Snapshot, sets record.ClockSets) error {
	set := sets.Since(snap.From)
	if err := replication.Of(engine).LoadReceiptsSince(snap.Receipts, set); err != nil {
		return err
	}
	return replication.Of(engine).LoadStateSince(snap.Partition, snap.State, set)
}

// Resume goes on after the snapshots that were loaded, by partition, nil where
// there was none. It returns the first message to apply, of those from first to
// last that the journal has.
func (r *Replica) Resume(snaps []*record.Snapshot, first, last uint64) (start uint64) {
	a := r.audit
	if start = a.resume(snaps, last); start < first {
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

// Replay applies the next message of the journal, at a start where nobody else is asked for
// what is missing.
func (r *Replica) Replay(sequence uint64, data []byte) error {
	return r.audit.Apply(r.holding, sequence, data)
}

// EndReplay audits that the journal reaches as far as it is known to have reached; last is
// what the server says. It returns all findings of the start.
func (r *Replica) EndReplay(reached, last uint64) []record.Finding {
	r.audit.End(reached, last)
	return r.audit.Findings
}

// Replayed are the flushes that were applied, the messages and batches that came a second
// time, and the flushes that were never whole.
func (r *Replica) Replayed() (flushes, repeats, unfinished uint64) {
	return r.audit.flushes, r.audit.repeats, r.audit.unfinished
}

// Rebased is a snapshot of a partition from a message on, of which nothing before is
// needed: what was lost until then is gone for good. It belongs to a new life.
func (r *Replica) Rebased(l record.Incarnation, partition int, from uint64) record.Snapshot {
	replication.Of(r.engine).Cut(partition, &r.cut, true)
	at := &r.audit.progressOf(l.Origin).positions[partition]
	at.Epoch, at.Lost = l.Epoch, 0
	snap := record.Snapshot{Incarnation: l, Partition: partition, Positions: r.audit.positionsOf(partition, nil), From: from, State: r.cut.State}
	if partition == 0 {
		snap.Receipts = replication.Of(r.engine).Receipts()
	}
	return snap
}

// Sink is where the batches of a flush that is complete go.
type Sink interface {
	// Wants tells whether batches of a partition matter. Others are not audited.
	Wants(partition int) bool

	// Count takes a batch that is new; own says that it is of this life of the
	// process. Batches of different partitions come side by side.
	Count(b record.Batch, own, deciding bool) error

	// Receipts takes those of a flush of another life, which was whole with a message of the
	// journal; deciding says that they are of a moment ago.
	Receipts(list [][]byte, message uint64, deciding bool) error
}

// Apply takes the next message of the journal, and counts what it completes:
// partitions side by side, the batches of each in order.
func (a *Auditor) Apply(to Sink, sequence uint64, data []byte) error {
	return a.applyParts(to, a.message(sequence, data))
}

// applyParts counts a flush that is complete.
func (a *Auditor) applyParts(to Sink, parts []record.Part) error {
	deciding := a.self != (record.Incarnation{}) // else nobody decides on limits yet
	for _, p := range parts {
		own := p.Incarnation == a.self
		var fresh [][]record.Batch // by partition
		for _, b := range p.Batches {
			if !to.Wants(b.Partition) || !a.batch(p.Incarnation, b) {
				continue
			}
			b.CutAt, b.Message = p.At, a.Stream
			if last := len(fresh) - 1; last >= 0 && fresh[last][0].Partition == b.Partition {
				fresh[last] = append(fresh[last], b)
			} else {
				fresh = append(fresh, []record.Batch{b})
			}
		}
		if err := parallel.Do(len(fresh), func(i int) error {
			for _, b := range fresh[i] {
				if err := to.Count(b, own, deciding); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		if own {
			continue
		}
		if err := to.Receipts(p.Receipts, a.Stream, deciding); err != nil {
			return err
		}
	}
	return nil
}
