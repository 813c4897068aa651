package journal

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
