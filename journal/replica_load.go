package journal

import (
	"fmt"
)

// loadSnapshot puts a partition's snapshot into the engine. Those of different
// partitions may be loaded at once; resume follows.
func (r *replica) loadSnapshot(snap snapshot) error {
	if err := r.engine.Replication().LoadReceipts(snap.receipts); err != nil {
		return err
	}
	return r.engine.Replication().LoadState(snap.partition, snap.state)
}

// resume goes on after the snapshots that were loaded, by partition, nil where
// there was none. It returns the first message to apply, of those from first to
// last that the journal has.
func (r *replica) resume(snaps []*snapshot, first, last uint64) (start uint64) {
	a := r.audit
	if start = a.resume(snaps, last); start < first {
		a.find(fmt.Sprintf("journal messages %d to %d", start, first-1), "trimmed, but some partitions have no sound snapshot after them", "the hits of those partitions")
		start = first
		a.stream = start - 1
	}
	return start
}

// sink is where the batches of a flush that is complete go.
type sink interface {
	// wants tells whether batches of a partition matter. Others are not audited.
	wants(partition int) bool

	// count takes a batch that is new; own says that it is of this life of the
	// process. Batches of different partitions come side by side.
	count(b batch, own, deciding bool) error

	// receipts takes those of a flush of another life; deciding says that they are of a moment
	// ago.
	receipts(list [][]byte, deciding bool) error
}

// apply takes the next message of the journal, and counts what it completes:
// partitions side by side, the batches of each in order.
func (a *auditor) apply(to sink, sequence uint64, data []byte) error {
	return a.applyParts(to, a.message(sequence, data))
}

// applyParts counts a flush that is complete.
func (a *auditor) applyParts(to sink, parts []part) error {
	deciding := a.self != (life{}) // else nobody decides on limits yet
	for _, p := range parts {
		own := p.life == a.self
		var fresh [][]batch // by partition
		for _, b := range p.batches {
			if !to.wants(b.partition) || !a.batch(p.life, b) {
				continue
			}
			b.cutAt = p.at
			if last := len(fresh) - 1; last >= 0 && fresh[last][0].partition == b.partition {
				fresh[last] = append(fresh[last], b)
			} else {
				fresh = append(fresh, []batch{b})
			}
		}
		if err := inParallel(len(fresh), func(i int) error {
			for _, b := range fresh[i] {
				if err := to.count(b, own, deciding); err != nil {
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
		if err := to.receipts(p.receipts, deciding); err != nil {
			return err
		}
	}
	return nil
}
