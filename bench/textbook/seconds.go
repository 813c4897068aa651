package textbook

import "sync"

// Seconds is a map from the second to its hits, for counters with few of them.
// A late hit finds its second.
//
// Cost: Hit amortised O(1); Count O(seconds with hits).
type Seconds struct {
	mu     sync.Mutex
	window int64
	hits   map[int64]int64
}

// NewSeconds returns a Seconds for windows of up to window seconds.
func NewSeconds(window int64) *Seconds {
	return &Seconds{window: window, hits: make(map[int64]int64)}
}

// Hit implements Counter.
func (s *Seconds) Hit(at int64) {
	s.mu.Lock()
	s.hits[at]++
	if int64(len(s.hits)) > 2*s.window { // nobody asks: a count would have pruned
		s.sumAfter(at-s.window, at-s.window)
	}
	s.mu.Unlock()
}

// Count implements Counter.
func (s *Seconds) Count(at, seconds int64) int64 {
	s.mu.Lock()
	sum := s.sumAfter(at-seconds, at-s.window)
	s.mu.Unlock()
	return sum
}

// sumAfter adds the hits later than second, and drops those at or before expired.
func (s *Seconds) sumAfter(second, expired int64) (sum int64) {
	for at, hits := range s.hits {
		if at > second {
			sum += hits
		}
		if at <= expired {
			delete(s.hits, at)
		}
	}
	return sum
}
