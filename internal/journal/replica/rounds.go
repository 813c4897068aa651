package replica

import (
	"cmp"
	"time"

	"github.com/weir-counter/weir/internal/journal/record"
)

// Rounds decides when to take snapshots, of which partitions, and what part of the journal they make needless. It has
// no clock, disk or lock; the checkpointer and the simulation drive it.
//
// In a round every partition is snapshotted once, some with each flush. A partition has
// two snapshots, so what a round makes needless is what the round before has covered.
type Rounds struct {
	AtOnce   int                  // partitions whose state one flush takes, without haste; 0: statesAtOnce
	UnderWay bool                 // one is under way
	todo     []int                // partitions that it has not taken
	open     int                  // taken and not yet stored
	Have     [][record.Slots]Slot // by partition and slot
	Bytes    int64                // of the round so far
	Last     int64                // bytes of the round before
	Lacks    bool                 // a snapshot of the round could not be stored

	moved uint64    // OldestNeeded after the round before
	pause time.Time // until then no round begins, after one that could not store all
}

// statesAtOnce is how many partitions one flush takes the state of: it bounds
// the memory that states take, and how long the flush is.
const statesAtOnce = 8

// statesInHaste replaces statesAtOnce when the journal has taken half of its space.
const statesInHaste = 64

// StartNow reports whether a round should start, for one of four reasons:
//
//   - The journal has grown enough. With space left, snapshotBytes is by how much it grows between rounds.
//   - The round before could not store all. Its alarm lasts until a round does.
//   - There is haste, and one more round lets some of the journal be trimmed.
//   - The journal is full and does not grow any more. The obstacle of the round before may be over.
func (r *Rounds) StartNow(now time.Time, s *Space, snapshotBytes int64) bool {
	if r.UnderWay || now.Before(r.pause) {
		return false
	}
	return s.roundDue(snapshotBytes, r.Last) || r.Lacks || s.Haste() && r.frees() || s.Full()
}

// Pause lets no round begin until then.
func (r *Rounds) Pause(until time.Time) { r.pause = until }

// frees reports whether one more round makes more of the journal needless, be there
// nothing new in it.
func (r *Rounds) frees() bool {
	newest := ^uint64(0)
	for _, slots := range r.Have {
		newest = min(newest, max(slots[0].UpTo, slots[1].UpTo))
	}
	return newest > OldestNeeded(r.Have)
}

// Start starts a round of some partitions.
func (r *Rounds) Start(todo []int) {
	r.UnderWay, r.todo, r.Bytes, r.Lacks = len(todo) > 0, todo, 0, false
}

// Due returns the partitions whose state the next flush takes. It returns none unless a round is under way and the
// states that were handed over before are stored.
func (r *Rounds) Due(haste bool) map[int]bool {
	if !r.UnderWay || r.open > 0 {
		return nil
	}
	states, most := map[int]bool{}, cmp.Or(r.AtOnce, statesAtOnce)
	if haste {
		most = statesInHaste
	}
	for _, partition := range r.todo[:min(most, len(r.todo))] {
		states[partition] = true
	}
	return states
}

// Taken tells that those due were taken. There may be fewer: later are those that are to
// be taken again.
func (r *Rounds) Taken(due map[int]bool, later []int) {
	r.todo = append(r.todo[len(due):], later...)
	r.open = len(due)
}

// Again puts a partition back into the round: its state could not be stored.
func (r *Rounds) Again(partition int) { r.todo = append(r.todo, partition) }

// Put is where a snapshot of so many bytes goes: the slot, and the revision that it takes
// the place of. It is not ok where another node, further on, has stored both. What the
// store says follows, as Answered.
func (r *Rounds) Put(partition int, from uint64, bytes int) (slot int, revision uint64, ok bool) {
	have := r.Have[partition]
	if slot, ok = SlotFor(have, from); !ok {
		return 0, 0, false
	}
	r.Have[partition][slot] = Slot{} // until the answer is there
	r.Bytes += int64(bytes)
	return slot, have[slot].Revision, true
}

// Answered says that a snapshot is in its slot, as a revision.
func (r *Rounds) Answered(partition, slot int, from, revision uint64) {
	r.Have[partition][slot] = Slot{UpTo: from + 1, Revision: revision}
}

// Unanswered says that one may not be: the slots are to be looked at again, and another
// round is to follow.
func (r *Rounds) Unanswered() { r.Lacks = true }

// Stored ends what Taken began. ended reports whether the round has ended with it. Then the snapshots cover all
// messages below needed; 0: a snapshot is missing.
func (r *Rounds) Stored(now time.Time) (needed uint64, ended bool) {
	r.open = 0
	if !r.UnderWay || len(r.todo) > 0 {
		return 0, false
	}
	r.UnderWay, r.Last = false, r.Bytes
	needed = OldestNeeded(r.Have)
	if r.pause = (time.Time{}); r.Lacks || needed == r.moved {
		r.pause = now.Add(RoundAgain)
	}
	r.moved = needed
	return needed, true
}

// Slot is what is known of the snapshot in a slot.
type Slot struct {
	UpTo     uint64 // its from, and one more; 0: there is no good one
	Revision uint64 // of what is there, good or not; 0: nothing is
}

// SlotFor is the slot to write a snapshot into: the one with the older. It fails
// where even that one is from later.
func SlotFor(have [record.Slots]Slot, from uint64) (slot int, ok bool) {
	if have[1].UpTo < have[0].UpTo {
		slot = 1
	}
	return slot, from+1 >= have[slot].UpTo
}

// OldestNeeded is the least of all slots: what lies at or before it, less one,
// can be had from either snapshot of every partition. 0: a snapshot is missing.
func OldestNeeded(have [][record.Slots]Slot) uint64 {
	least := ^uint64(0)
	for _, slots := range have {
		for _, slot := range slots {
			least = min(least, slot.UpTo)
		}
	}
	return least
}

// RoundAgain is how long a round that could not store all, or that let nothing go, is
// not followed by another.
const RoundAgain = 3 * time.Second
