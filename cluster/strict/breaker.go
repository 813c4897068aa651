package strict

import (
	"sync"
	"time"
)

// breaker has requests not all wait for a holder that does not answer. After a question that got no answer in
// time nobody is asked for a short rest; then one request at a time tries, and the first answer ends it. The
// rest is breakerLeast, twice as long after each trial that gets no answer, and breakerTime at most: one slow
// answer costs requests breakerLeast and the time of one question. The zero breaker rests nobody.
type breaker struct {
	mu       sync.Mutex
	failures int       // questions without an answer, one after the other
	since    time.Time // the last of them was given up then
	until    time.Time // nobody is asked before
	trying   bool      // one request tries
}

const (
	breakerLeast = 25 * time.Millisecond
	breakerTime  = time.Second
)

// enter tells whether a request may ask. Who may tells leave how it ended.
func (b *breaker) enter(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures == 0 {
		return true
	}
	if b.trying || now.Before(b.until) {
		return false
	}
	b.trying = true
	return true
}

// leave is the end of a question that was asked at began: it was answered, or not in time, or failed at once.
func (b *breaker) leave(began, now time.Time, answered, late bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case answered:
		b.failures, b.trying = 0, false
	case b.failures > 0 && began.Before(b.since): // asked together with one that is counted already
	case late:
		b.failures, b.trying = b.failures+1, false
		b.since, b.until = now, now.Add(min(breakerLeast<<min(b.failures-1, 10), breakerTime))
	default:
		b.trying = false
	}
}
