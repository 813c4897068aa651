package textbook

import "sync"

// Ring is an array with one slot for each second of the window: second mod
// window, which is 300 in the texts. A late hit finds its slot.
//
// Cost: Hit O(1); Count O(window).
type Ring struct {
	mu    sync.Mutex
	slots []slot
	last  *slot // the slot hit last, which saves a division
}

// NewRing returns a Ring for windows of up to window seconds.
func NewRing(window int64) *Ring {
	slots := make([]slot, window)
	return &Ring{slots: slots, last: &slots[0]}
}

// Hit implements Counter.
func (r *Ring) Hit(at int64) {
	r.mu.Lock()
	if r.last.start != at {
		r.last = &r.slots[at%int64(len(r.slots))]
	}
	r.last.hit(at)
	r.mu.Unlock()
}

// Count implements Counter.
func (r *Ring) Count(at, seconds int64) int64 {
	r.mu.Lock()
	sum := sumAfter(r.slots, at-seconds)
	r.mu.Unlock()
	return sum
}

// hit counts a hit of the interval at start, unless the slot already serves a
// later one.
func (s *slot) hit(start int64) {
	switch {
	case s.start == start:
		s.hits++
	case s.start < start:
		*s = slot{start, 1}
	}
}

// sumAfter adds the hits of the slots that start later than start.
func sumAfter(slots []slot, start int64) (sum int64) {
	for i := range slots {
		if slots[i].start > start {
			sum += slots[i].hits
		}
	}
	return sum
}
