package textbook

import "sync"

// Tiers has three rings: 300 slots of a second, 48 of half an hour and 14 of twelve hours. A count uses the finest ring
// that covers its window, and adds the slots that start within the window. It lacks the hits of the slot that the
// window cuts. A late hit finds its slots.
//
// Cost: Hit O(1), three slots; Count O(slots of the ring).
type Tiers struct {
	mu   sync.Mutex
	tier [3]tier
}

type tier struct {
	width int64 // of a slot, seconds
	slots []slot
	last  *slot // the slot hit last, which saves a division
}

// NewTiers returns a Tiers, for windows of up to a week.
func NewTiers() *Tiers {
	return &Tiers{tier: [3]tier{newTier(1, 300), newTier(30*60, 48), newTier(12*3600, 14)}}
}

func newTier(width, n int64) tier {
	slots := make([]slot, n)
	return tier{width, slots, &slots[0]}
}

// Hit implements Counter.
func (t *Tiers) Hit(at int64) {
	t.mu.Lock()
	for i := range t.tier {
		t.tier[i].hit(at)
	}
	t.mu.Unlock()
}

// Count implements Counter.
func (t *Tiers) Count(at, seconds int64) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.tier {
		if tier := &t.tier[i]; seconds <= tier.covers() || i == len(t.tier)-1 {
			return sumAfter(tier.slots, floorDiv(at-seconds, tier.width))
		}
	}
	return 0
}

func (t *tier) covers() int64 { return t.width * int64(len(t.slots)) }

func (t *tier) hit(at int64) {
	start := t.last.start * t.width
	if at < start || at >= start+t.width {
		t.last = &t.slots[at/t.width%int64(len(t.slots))]
		t.last.hit(at / t.width)
		return
	}
	t.last.hits++
}

// floorDiv is a/b rounded down also for windows that reach back before 1970.
func floorDiv(a, b int64) int64 {
	if a < 0 {
		return -1
	}
	return a / b
}
