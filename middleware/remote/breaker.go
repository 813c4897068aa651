package remote

import (
	"fmt"
	"sync"
	"time"

	"github.com/weir-counter/weir/middleware"
)

// failuresToPause is how many failures in a row begin a pause. One may be a packet that
// was lost.
const failuresToPause = 3

// breaker keeps requests from waiting for a Weir that does not answer. After
// failuresToPause it fails them at once for a pause, then lets one try: with its
// success all may again, with its failure the next pause begins.
type breaker struct {
	pause time.Duration

	mu       sync.Mutex // guards all below
	failures int        // in a row, up to failuresToPause: then it is paused
	until    time.Time  // when the pause is over
	trying   bool       // the one is under way
	last     error
	epoch    uint64 // pauses begun and ended
}

// ticket is a request that may ask. What comes of it counts while the epoch lasts: a
// failure from before the last recovery says nothing of now.
type ticket struct {
	epoch uint64
	try   bool // it is the one of a pause
}

// outcome is what came of asking.
type outcome uint8

const (
	answered outcome = iota
	failed
	abandoned // the request went away: nothing is known
)

// enter returns a ticket that done takes back, or an error at once.
func (b *breaker) enter() (ticket, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < failuresToPause {
		return ticket{epoch: b.epoch}, nil
	}
	if b.trying || time.Now().Before(b.until) {
		return ticket{}, fmt.Errorf("%w: not asked for a while, after: %w", middleware.ErrUnavailable, b.last)
	}
	b.trying = true
	return ticket{b.epoch, true}, nil
}

// done takes a ticket back. err is why it failed.
func (b *breaker) done(t ticket, o outcome, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.try {
		b.trying = false
	}
	switch {
	case t.epoch != b.epoch || o == abandoned:
	case o == answered:
		if b.failures = 0; t.try {
			b.epoch++
		}
	case t.try:
		b.until, b.last = time.Now().Add(b.pause), err
	default:
		b.last = err
		if b.failures++; b.failures == failuresToPause {
			b.epoch++
			b.until = time.Now().Add(b.pause)
		}
	}
}
