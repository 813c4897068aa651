package keyspace

import (
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/window"
)

// package clock says what an engine means by now, which seconds have come, and what the limits of keys are kept by.

// Clock is an engine's idea of now, and the judge of hits from the future or from before the retention.
type Clock struct {
	Event     bool // else by the wall clock
	Wall      Wall
	Ahead     int64 // seconds a hit may be after the wall clock
	Retention int64 // seconds

	// quarantined counts hits, weighted, that were quarantined because their second had not
	// come, and quarantinedAt the wall clock's second when the last one was.
	quarantined, quarantinedAt atomic.Uint64

	// seen is the latest second known to have begun: the last one read from a wall clock, or the second of the newest
	// hit of an event clock. -1: none yet.
	seen atomic.Int64
}

// NewClock returns a wall clock or an event clock. If source is not nil, it replaces the system's wall clock. A hit may
// be ahead seconds after the wall clock.
func NewClock(event bool, source func() time.Time, ahead, retention int64) *Clock {
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

// Judge decides on a hit's time: Counted (so far), TooLate, or Refused, if it is after the wall clock by more seconds
// than may be. It reads the wall clock only where the time may matter.
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

// runBack restarts an event clock at the second of a hit, if the event clock shows a second that has not come. That
// happens when the wall clock was ahead and has run back.
func (c *Clock) runBack(second int64) bool {
	seen := c.seen.Load()
	return seen > c.Limit() && c.seen.CompareAndSwap(seen, second)
}

// Near is how far a window's newest second may be ahead of the clock, in seconds, while windows of 300 s that end now
// are exact. They are exact within the newest 511 s.
const Near = 200

// Limit is the last second that has come. A later hit may move nothing but its own record, wherever it comes from.
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

// ClockLimits has two times, in ns. What keys have used is kept by now, which begins at the time of day and continues
// by the monotonic clock. A time of day that jumps, or was wrong at boot, therefore neither gives nor takes an
// allowance. The age of an admission is always right.
//
// The journal and snapshots use the time of day as the engine has it then (ahead later than now). What comes back is
// moved to now by the difference of the two at that moment. So when a node's clock is corrected, the node is right at
// once for the others, and in its next life.
//
// While a machine is suspended, the monotonic clock stands still. What was used before then counts for as long as if
// the suspension had not happened.
type ClockLimits struct {
	start   time.Time
	base    int64
	Source  func() time.Time     // nil: the system's
	elapsed func() time.Duration // nil: by source
	Wall    *Wall
}

// NewClockLimits returns one that begins now. source and elapsed, if they are not nil, are in
// place of the system's clocks.
func NewClockLimits(source func() time.Time, elapsed func() time.Duration, wall *Wall) ClockLimits {
	c := ClockLimits{start: time.Now(), Source: source, elapsed: elapsed, Wall: wall}
	c.base = wall.Time().UnixNano()
	if c.elapsed != nil {
		c.base -= int64(c.elapsed())
	}
	return c
}

// Now is in ns.
func (c *ClockLimits) Now() int64 {
	switch {
	case c.elapsed != nil:
		return c.base + int64(c.elapsed())
	case c.Source != nil:
		return c.Source().UnixNano()
	}
	return c.base + int64(time.Since(c.start))
}

// At is Now and Ahead at a moment that Wall.Raw has just said, without another look at the system's clock.
func (c *ClockLimits) At(raw time.Time) (now, ahead int64) {
	if c.elapsed != nil {
		return c.Now(), c.Ahead()
	}
	correction := c.Wall.correction.Load()
	if c.Source != nil {
		return raw.UnixNano(), correction
	}
	now = c.base + int64(raw.Sub(c.start))
	return now, raw.UnixNano() + correction - now
}

// Ahead is how far the time of day is ahead of now.
func (c *ClockLimits) Ahead() int64 {
	if c.Source != nil && c.elapsed == nil {
		return c.Wall.correction.Load()
	}
	return c.Wall.Time().UnixNano() - c.Now()
}

// Second is now, for receipts, which are kept by this clock too.
func (c *ClockLimits) Second() int64 { return c.Now() / int64(time.Second) }

// AheadSeconds is Ahead, for receipts.
func (c *ClockLimits) AheadSeconds() int64 { return c.Ahead() / int64(time.Second) }

// Wall reads the time of day, to the second. It reads the system's monotonic clock, at half the cost, and the time of
// day once a second.
//
// A jump ahead of more than maxJump is believed only after jumpHold. A hit from a clock that was wrong for a moment
// would make all later ones too late. A machine that was suspended jumps ahead rightly, and its hits are a few seconds
// behind. A jump back is believed at once: the hits are late, and counted.
//
// Frequent readers only load sure, which has the second. A timer clears sure some time before the second ends. From
// then on each reader asks the system, until sure has the next second. So no reader gets a second that is over, unless
// the timer is late by more than sureMargin.
type Wall struct {
	Source func() time.Time // nil: the system's
	base   atomic.Pointer[wallBase]
	sure   atomic.Int64 // the second that it is, for some time to come; 0: ask the system

	correction atomic.Int64 // ns, added to what the clock says: see Correct
}

const (
	maxJump  = time.Minute
	jumpHold = 10 * time.Second

	sureMargin = 100 * time.Millisecond // of a second, before its end, it is not sure
	sureAfter  = 100                    // looks at the system's clock in one second, before it is sure
)

// wallBase is one reading of the time of day.
type wallBase struct {
	at    time.Time     // for its monotonic part
	wall  time.Time     // the time of day then, or what is believed to be
	rest  time.Duration // from at to the end of wall's second
	doubt time.Time     // since when wall is held back; zero: it is not
	looks atomic.Int32  // at the system's clock, in wall's second; not counted beyond sureAfter
}

// Time is the time of day, as it is: without what holds jumps back.
func (w *Wall) Time() time.Time {
	return w.Raw().Add(time.Duration(w.correction.Load()))
}

// Raw is Time without what Correct adds.
func (w *Wall) Raw() time.Time {
	if w.Source != nil {
		return w.Source()
	}
	return time.Now()
}

// Correct adds by to what the clock says from now on. If the caller knows how wrong the clock of this machine is, it need not
// wait until the clock is set.
func (w *Wall) Correct(by time.Duration) {
	w.correction.Store(int64(by))
	w.base.Store(nil)
	w.sure.Store(0)
}

// Corrected returns the argument of the last Correct.
func (w *Wall) Corrected() time.Duration { return time.Duration(w.correction.Load()) }

// Second is the time of day in Unix seconds, with what holds jumps back.
func (w *Wall) Second() int64 {
	if second := w.sure.Load(); second != 0 {
		return second
	}
	return w.look()
}

// look asks the system, or the source.
func (w *Wall) look() int64 {
	if w.Source != nil {
		return w.Time().Unix()
	}
	base := w.base.Load()
	if base != nil {
		if left := base.rest - time.Since(base.at); left > 0 {
			if base.looks.Load() < sureAfter && base.looks.Add(1) == sureAfter {
				w.makeSure(base, left-sureMargin)
			}
			return base.wall.Unix()
		}
	}
	now := time.Now()
	next := base.nextAt(now, now.Round(0).Add(time.Duration(w.correction.Load()))) // Round strips the monotonic part
	w.base.Store(next)
	return next.wall.Unix()
}

// makeSure has Second answer with the second of the newest reading, without another look, for some time.
func (w *Wall) makeSure(base *wallBase, until time.Duration) {
	second := base.wall.Unix()
	if until <= 0 {
		return
	}
	w.sure.Store(second)
	if w.base.Load() != base { // Correct came between
		w.sure.Store(0)
		return
	}
	time.AfterFunc(until, func() { w.sure.CompareAndSwap(second, 0) })
}

// nextAt is the reading that follows b, which may be nil, at a moment of the monotonic clock and its time of day.
func (b *wallBase) nextAt(now, wall time.Time) *wallBase {
	n := &wallBase{at: now, wall: wall}
	if b != nil {
		if expected := b.wall.Add(now.Sub(b.at)); n.wall.Sub(expected) > maxJump {
			n.doubt = b.doubt
			if n.doubt.IsZero() {
				n.doubt = now
			}
			if now.Sub(n.doubt) < jumpHold {
				n.wall = expected
			} else {
				n.doubt = time.Time{}
			}
		}
	}
	n.rest = time.Second - time.Duration(n.wall.Nanosecond())
	return n
}
