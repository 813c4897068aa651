// package clock says what an engine means by now, which seconds have come, and what the
// limits of keys are kept by.
package clock

import (
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/window"
)

// Clock is an engine's idea of now, and the judge of hits from the future or
// from before the retention.
type Clock struct {
	Event     bool // else by the wall clock
	Wall      Wall
	Ahead     int64 // seconds a hit may be after the wall clock
	Retention int64 // seconds

	// quarantined counts hits, weighted, that were quarantined because their second had not
	// come, and quarantinedAt the wall clock's second when the last one was.
	quarantined, quarantinedAt atomic.Uint64

	// seen is the latest second known to have begun: of a wall clock the last
	// one read, of an event clock that of the newest hit. -1: none yet.
	seen atomic.Int64
}

// New returns one that is by the wall clock, which source is in place of the system's,
// or by events. ahead is how many seconds a hit may be after the wall clock.
func New(event bool, source func() time.Time, ahead, retention int64) *Clock {
	c := &Clock{Event: event, Wall: Wall{Source: source}, Ahead: ahead, Retention: retention}
	c.seen.Store(-1)
	return c
}

// Now is the current second; -1 for an event clock before the first hit.
func (c *Clock) Now() int64 {
	if !c.Event {
		second := c.Wall.Second()
		if c.seen.Load() != second { // a store would take the line from other cores
			c.seen.Store(second)
		}
		return second
	}
	return c.seen.Load()
}

// Judge decides on a hit's time: Counted (so far), TooLate, or Refused, if it is after the
// wall clock by more seconds than may be. It reads the wall clock only where the time may
// matter.
func (c *Clock) Judge(second int64) (outcome window.Outcome, after int64) {
	seen := c.seen.Load()
	if second <= seen && second > seen-c.Retention/2 {
		return window.Counted, 0
	}
	if second > seen {
		if wall := c.Wall.Second(); second > wall+c.Ahead {
			return window.Refused, second - wall
		}
	}
	c.Advance(second)
	if second > c.Now()-c.Retention {
		return window.Counted, 0
	}
	if c.Event && c.runBack(second) {
		return window.Counted, 0
	}
	return window.TooLate, 0
}

// runBack restarts an event clock at the second of a hit, if it stands at one that has
// not come: the wall clock was ahead, and has run back.
func (c *Clock) runBack(second int64) bool {
	seen := c.seen.Load()
	return seen > c.Limit() && c.seen.CompareAndSwap(seen, second)
}

// Near is how far, in seconds, a window's newest second may be ahead of the
// clock while windows of 300 s that end now are exact: 300 of the newest 511 s.
const Near = 200

// Limit is the last second that has come: no later one may move anything but its own
// record, whoever brings it.
func (c *Clock) Limit() int64 { return c.Wall.Second() + c.Ahead }

// NoteQuarantined notes n hits of a second after limit.
func (c *Clock) NoteQuarantined(second int64, n uint64, limit int64) {
	if second > limit+Near {
		c.quarantined.Add(n)
		c.quarantinedAt.Store(uint64(max(limit-c.Ahead, 0)))
	}
}

// Noted is how many hits NoteQuarantined noted, and the wall clock's second at the last of them.
func (c *Clock) Noted() (hits uint64, at int64) {
	return c.quarantined.Load(), int64(c.quarantinedAt.Load())
}

// Advance moves an event clock on to the second of a hit, which has come.
func (c *Clock) Advance(second int64) {
	if !c.Event {
		return
	}
	for seen := c.seen.Load(); second > seen && !c.seen.CompareAndSwap(seen, second); {
		seen = c.seen.Load()
	}
}
