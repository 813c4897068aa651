package textbook

import "sync"

// Cached is a ring with a running total that remembers its answers until the
// next hit.
//
// Cost: as Total, and O(1) for a count asked again without a hit in between.
type Cached struct {
	mu      sync.Mutex
	sum     running
	hits    int64            // of all time: tells whether an answer is outdated
	answers map[int64]answer // by window, at most maxAnswers
}

type answer struct{ at, hits, sum int64 }

// maxAnswers bounds the cache: callers may ask for any number of windows.
const maxAnswers = 64

// NewCached returns a Cached for windows of up to window seconds.
func NewCached(window int64) *Cached {
	return &Cached{sum: newRunning(window), answers: make(map[int64]answer)}
}

// Hit implements Counter.
func (c *Cached) Hit(at int64) {
	c.mu.Lock()
	c.sum.hit(at)
	c.hits++
	c.mu.Unlock()
}

// Count implements Counter.
func (c *Cached) Count(at, seconds int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a, ok := c.answers[seconds]; ok && a.at == at && a.hits == c.hits {
		return a.sum
	}
	if len(c.answers) == maxAnswers {
		clear(c.answers)
	}
	sum := c.sum.count(at, seconds)
	c.answers[seconds] = answer{at, c.hits, sum}
	return sum
}
