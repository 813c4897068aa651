package journal

import (
	"fmt"

	"github.com/weir-counter/weir"
)

// Hits add up in any order, but a removal takes what is before it, and all nodes must
// agree on what that is: it is the order of the journal. A node is ahead of it with its
// own hits and removals. So
//
//   - an own removal that did not come back yet also takes what is applied meanwhile
//     (weir.Replication.Apply, Confirm);
//   - a removal of another node leaves own hits that did not come back yet (ownSince);
//   - a snapshot, whose state has own hits and removals ahead of the journal, is stored
//     once they came back, unless a removal was among what came before them
//     (openSnapshot).

// ownSince are the own deltas of a partition that did not come back from the journal,
// of batches from after seq, by key: what was cut, in order. The caller holds cutting,
// so that nothing is on its way from the engine to the ring, and mu.
func (r *replica) ownSince(partition int, seq uint64) func(key string) []weir.Delta {
	var of map[string][]weir.Delta
	return func(key string) []weir.Delta {
		if of == nil {
			of = map[string][]weir.Delta{}
			if !r.eachOwn(partition, seq, func(d weir.Delta) { of[d.Key] = append(of[d.Key], d) }) {
				r.holding.unsure[partition].Store(true)
			}
		}
		return of[key]
	}
}

// reportUnsure names the partitions in which own hits may be missing. The caller holds
// mu.
func (r *replica) reportUnsure() {
	for partition := range r.holding.unsure {
		if r.holding.unsure[partition].Swap(false) {
			r.audit.find(r.audit.lane(r.audit.origin).named(fmt.Sprintf("partition %d", partition)),
				"a key was deleted when more own hits were on their way than are kept", "the newest own hits of that key")
		}
	}
}

// eachOwn calls f with each of the deltas of ownSince. It tells whether the ring still
// had all.
func (r *replica) eachOwn(partition int, seq uint64, f func(weir.Delta)) (all bool) {
	if r.encoder == nil {
		return true
	}
	for flush := r.audit.lane(r.audit.origin).flush + 1; flush <= r.encoder.flush; flush++ {
		for number, last := uint64(0), false; !last; number++ {
			p, err := decodePart(r.ring.get(flush, number))
			if err != nil {
				all = flush == r.encoder.flush && number == 0 // it is not cut yet
				return all
			}
			for _, b := range p.batches {
				if b.partition == partition && b.seq > seq {
					for _, d := range b.deltas() {
						f(d)
					}
				}
			}
			last = p.last
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
func (r *replica) openSnapshot(partition int) {
	o := &openSnapshot{flush: r.encoder.flush, hits: map[string]bool{}, removed: map[string]bool{}}
	note := func(d weir.Delta) {
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
	r.holding.open[partition] = o
}

// openBefore says that the flush that some states were taken with is none: nothing of
// them is in it.
func (r *replica) openBefore(snaps []snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, snap := range snaps {
		if o := r.holding.open[snap.partition]; o != nil {
			o.flush = min(o.flush, r.encoder.flush)
		}
	}
}

// see looks at a batch of another life that is applied after the state was taken.
func (o *openSnapshot) see(b batch) {
	if b.kind != kindHits {
		o.spoiled = o.spoiled || b.kind == kindClear || len(o.removed) > 0
		return
	}
	if !b.removes && len(o.removed) == 0 {
		return
	}
	for _, d := range b.deltas() {
		if d.N == 0 && o.hits[d.Key] || d.N > 0 && o.removed[d.Key] {
			o.spoiled = true
		}
	}
}

// settle tells whether all own hits and removals of a snapshot came back, and whether
// it may be stored. It is asked until it is settled.
func (r *replica) settle(snap snapshot) (settled, sound bool) {
	if !r.clustered {
		return true, true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.holding.open[snap.partition]
	if o == nil {
		return true, false
	}
	if settled = r.audit.lane(r.audit.origin).flush >= o.flush; settled {
		delete(r.holding.open, snap.partition)
	}
	return settled, !o.spoiled
}
