package journal

// rounds is when snapshots are taken, of which partitions, and what of the journal they
// make needless: without clock, disk and lock, for the snapshotter and the simulation.
//
// In a round every partition is snapshotted once, some with each flush. A partition has
// two snapshots, so what a round makes needless is what the round before has covered.
type rounds struct {
	under bool          // one is under way
	todo  []int         // partitions that it has not taken
	open  int           // taken and not yet stored
	have  [][slots]kept // by partition and slot
	bytes int64         // of the round so far
	last  int64         // bytes of the round before
	lacks bool          // a snapshot of the round could not be stored
}

// statesAtOnce is how many partitions one flush takes the state of: it bounds
// the memory that states take, and how long the flush is.
const statesAtOnce = 8

// statesInHaste is that number when the journal has taken half of its room.
const statesInHaste = 64

// startNow tells whether a round should start: the journal has grown enough; or the round
// before could not store all, which its alarm says until one does; or there is haste, and
// one more round lets some of the journal go; or it is full, and does not grow any more:
// what kept the round before from letting it go may be over.
func (r *rounds) startNow(grown, every int64, haste, full bool) bool {
	return !r.under && (grown >= every || r.lacks || haste && r.frees() || full)
}

// frees tells whether one more round makes more of the journal needless, be there
// nothing new in it.
func (r *rounds) frees() bool {
	newest := ^uint64(0)
	for _, of := range r.have {
		newest = min(newest, max(of[0].upTo, of[1].upTo))
	}
	return newest > oldestNeeded(r.have)
}

// start starts a round of some partitions.
func (r *rounds) start(todo []int) {
	r.under, r.todo, r.bytes, r.lacks = len(todo) > 0, todo, 0, false
}

// due returns the partitions whose state the next flush is to take: none unless
// a round is under way and what was handed over before is stored.
func (r *rounds) due(haste bool) map[int]bool {
	if !r.under || r.open > 0 {
		return nil
	}
	states, most := map[int]bool{}, statesAtOnce
	if haste {
		most = statesInHaste
	}
	for _, partition := range r.todo[:min(most, len(r.todo))] {
		states[partition] = true
	}
	return states
}

// taken tells that those due were taken. There may be fewer: later are those that are to
// be taken again.
func (r *rounds) taken(due map[int]bool, later []int) {
	r.todo = append(r.todo[len(due):], later...)
	r.open = len(due)
}

// again puts a partition back into the round: its state could not be stored.
func (r *rounds) again(partition int) { r.todo = append(r.todo, partition) }

// stored ends what taken began. It tells whether the round has ended with it.
func (r *rounds) stored() (ended bool) {
	r.open = 0
	if ended = r.under && len(r.todo) == 0; ended {
		r.under, r.last = false, r.bytes
	}
	return ended
}

// kept is what is known of the snapshot in a slot.
type kept struct {
	upTo     uint64 // its from, and one more; 0: there is no good one
	revision uint64 // of what is there, good or not; 0: nothing is
}

// slotFor is the slot to write a snapshot into: the one with the older. It fails
// where even that one is from later.
func slotFor(have [slots]kept, from uint64) (slot int, ok bool) {
	if have[1].upTo < have[0].upTo {
		slot = 1
	}
	return slot, from+1 >= have[slot].upTo
}

// oldestNeeded is the least of all slots: what lies at or before it, less one,
// can be had from either snapshot of every partition. 0: a snapshot is missing.
func oldestNeeded(have [][slots]kept) uint64 {
	least := ^uint64(0)
	for _, of := range have {
		for _, slot := range of {
			least = min(least, slot.upTo)
		}
	}
	return least
}
