package replica

import (
	"fmt"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
)

// Hits add up in any order, but a removal deletes what is before it. All nodes must agree on what is before it, so the
// journal's order counts. A node's own hits and removals are ahead of the journal. So
//
//   - an own removal that did not come back yet also takes what is applied meanwhile
//     (engine.Replication.Apply, Confirm);
//   - a removal of another node leaves own hits that did not come back yet (ownSince);
//   - a snapshot is stored only once its own hits and removals came back, because its state
//     has them ahead of the journal. It is not stored if a removal spoiled it meanwhile
//     (openSnapshot).

// ownSince returns, by key, the own deltas of a partition that did not come back from the journal, in the order in
// which they were cut. They are from batches after seq. The caller holds cutting, so that nothing is on its way from
// the engine to the resend buffer, and mu.
func (r *Replica) ownSince(partition int, seq uint64) func(key string) []replication.Delta {
	var of map[string][]replication.Delta
	return func(key string) []replication.Delta {
		if of == nil {
			of = map[string][]replication.Delta{}
			if !r.eachOwn(partition, seq, func(d replication.Delta) { of[d.Key] = append(of[d.Key], d) }) {
				r.holding.unsure[partition].Store(true)
			}
		}
		return of[key]
	}
}

// reportUnsure names the partitions in which own hits may be missing. The caller holds
// mu.
func (r *Replica) reportUnsure() {
	for partition := range r.holding.unsure {
		if r.holding.unsure[partition].Swap(false) {
			r.audit.find(r.audit.progressOf(r.audit.Origin).named(fmt.Sprintf("partition %d", partition)),
				"a key was deleted when more own hits were on their way than are kept", "the newest own hits of that key")
		}
	}
}

// eachOwn calls f with each of the deltas of ownSince. It tells whether the resend buffer still
// had all.
func (r *Replica) eachOwn(partition int, seq uint64, f func(replication.Delta)) (all bool) {
	if r.encoder == nil {
		return true
	}
	for flush := r.audit.progressOf(r.audit.Origin).flush + 1; flush <= r.encoder.Flush; flush++ {
		for number, last := uint64(0), false; !last; number++ {
			p, err := record.DecodePart(r.resends.get(flush, number))
			if err != nil {
				all = flush == r.encoder.Flush && number == 0 // it is not cut yet
				return all
			}
			for _, b := range p.Batches {
				if b.Partition == partition && b.Seq > seq {
					for _, d := range b.Deltas() {
						f(d)
					}
				}
			}
			last = p.Last
		}
	}
	return true
}

// openSnapshot is a snapshot whose own hits and removals did not all come back from
// the journal.
type openSnapshot struct {
	flush   uint64          // the last of them
	hits    map[string]bool // their keys
	removed map[string]bool
	spoiled bool // in the order of the journal the state is another
}

// openSnapshot begins to watch the partition whose state the cut has just taken. The
// caller holds mu.
func (r *Replica) openSnapshot(partition int) {
	o := &openSnapshot{flush: r.encoder.Flush, hits: map[string]bool{}, removed: map[string]bool{}}
	note := func(d replication.Delta) {
		if d.N == 0 {
			o.removed[d.Key] = true
		} else {
			o.hits[d.Key] = true
		}
	}
	o.spoiled = !r.eachOwn(partition, r.holding.upTo[partition], note)
	for _, d := range r.cut.Deltas {
		note(d)
	}
	for _, d := range r.cut.Distinct {
		o.hits[d.Key] = true
	}
	r.holding.open[partition] = o
}

// openBefore says that the flush that some states were taken with is none: nothing of
// them is in it.
func (r *Replica) openBefore(snaps []record.Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, snap := range snaps {
		if o := r.holding.open[snap.Partition]; o != nil {
			o.flush = min(o.flush, r.encoder.Flush)
		}
	}
}

// see checks a batch that is applied after the state was taken, whether the partition is held or not. The state is
// spoiled if it has own hits that another node's flush counts. Other own batches are in the state as they should be.
func (o *openSnapshot) see(b record.Batch, own bool) {
	if own {
		o.spoiled = o.spoiled || len(b.Less) > 0
		return
	}
	if b.Kind != record.KindHits {
		o.spoiled = o.spoiled || b.Kind == record.KindClear || len(o.removed) > 0
		return
	}
	if !b.Removes && len(o.removed) == 0 {
		return
	}
	for _, d := range b.Deltas() {
		if d.N == 0 && o.hits[d.Key] || d.N > 0 && o.removed[d.Key] {
			o.spoiled = true
		}
	}
}

// Settle tells whether all own hits and removals of a snapshot came back, and whether
// it may be stored. It is asked until it is settled.
func (r *Replica) Settle(snap record.Snapshot) (settled, sound bool) {
	if !r.clustered {
		return true, true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.holding.open[snap.Partition]
	if o == nil {
		return true, false
	}
	if settled = r.audit.progressOf(r.audit.Origin).flush >= o.flush; settled {
		delete(r.holding.open, snap.Partition)
	}
	return settled, !o.spoiled
}

// ownAll is ownSince of all keys, in order.
func (r *Replica) ownAll(partition int, seq uint64) (list []replication.Delta) {
	if !r.eachOwn(partition, seq, func(d replication.Delta) { list = append(list, d) }) {
		r.holding.unsure[partition].Store(true)
	}
	return list
}
