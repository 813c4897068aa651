package journal

import (
	"fmt"

	"github.com/weir-counter/weir"
)

// loadSnapshot puts a partition's snapshot into the engine. Those of different
// partitions may be loaded at once; resume follows.
func (r *replica) loadSnapshot(snap snapshot) error {
	if err := r.engine.LoadReceipts(snap.receipts); err != nil {
		return err
	}
	return r.engine.LoadState(snap.partition, snap.state)
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

// apply takes the next message of the journal, and counts what it completes:
// partitions side by side, the batches of each in order.
func (a *auditor) apply(engine *weir.Engine, sequence uint64, data []byte) error {
	return a.applyParts(engine, a.message(sequence, data))
}

// applyParts counts a flush that is complete.
func (a *auditor) applyParts(engine *weir.Engine, parts []part) error {
	admit := engine.ApplyAdmissions
	if a.self != (life{}) { // else they are of the past, and nobody decides yet
		admit = engine.FollowAdmissions
	}
	for _, p := range parts {
		var fresh [][]batch // by partition
		for _, b := range p.batches {
			if !a.batch(p.life, b) || p.life == a.self {
				continue
			}
			if last := len(fresh) - 1; last >= 0 && fresh[last][0].partition == b.partition {
				fresh[last] = append(fresh[last], b)
			} else {
				fresh = append(fresh, []batch{b})
			}
		}
		if err := inParallel(len(fresh), func(i int) error {
			for _, b := range fresh[i] {
				engine.Apply(b.partition, b.deltas())
				if err := admit(b.partition, b.admissions()); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		if p.life == a.self {
			continue
		}
		if err := engine.LoadReceipts(p.receipts); err != nil {
			return err
		}
	}
	return nil
}
