package livelog

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// PerTick is how many hits, and how many denials, an interval between two views shows at most.
const PerTick = 10

// sample is a few of many events, of which each has the same chance: it halves the chance of all whenever it has too many.
// So of n events only some PerTick * log2(n / PerTick) come to the lock.
type sample struct {
	halved atomic.Uint32 // the chance is one in 2^halved; written under mu

	mu   sync.Mutex
	list []Event
}

// drawn is whether an event comes into a sample whose chance is one in 2^halved.
func drawn(halved uint32) bool { return halved == 0 || rand.Uint64()&(1<<halved-1) == 0 }

// add adds an event that was drawn with the chance of one in 2^halved.
func (s *sample) add(e Event, halved uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.halved.Load()
	if now > halved && !drawn(now-halved) { // it was halved meanwhile
		return
	}
	s.list = append(s.list, e)
	for len(s.list) > PerTick {
		kept := s.list[:0]
		for _, e := range s.list {
			if drawn(1) {
				kept = append(kept, e)
			}
		}
		s.list = kept
		s.halved.Add(1)
	}
}

// take ends an interval: its events, the oldest first, of which each had the chance of one in oneIn.
func (s *sample) take(to []Event) (all []Event, oneIn uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, oneIn = append(to, s.list...), 1<<s.halved.Load()
	clear(s.list)
	s.list = s.list[:0]
	s.halved.Store(0)
	return all, oneIn
}
