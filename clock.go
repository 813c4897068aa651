package weir

import (
	"fmt"
	"sync/atomic"
	"time"
)

// clock is an engine's idea of now, and the judge of hits from the future or
// from before the retention.
type clock struct {
	kind      Clock
	wall      wallClock
	ahead     int64 // seconds a hit may be after the wall clock
	retention int64 // seconds

	// aside counts hits, weighted, that were set aside because their second had not
	// come, and asideAt the wall clock's second when the last one was.
	aside, asideAt atomic.Uint64

	// seen is the latest second known to have begun: of a wall clock the last
	// one read, of an event clock that of the newest hit. -1: none yet.
	seen atomic.Int64
}

func newClock(cfg Config) *clock {
	c := &clock{
		kind:      cfg.Clock,
		wall:      wallClock{source: cfg.Now},
		ahead:     int64((cfg.MaxAhead + time.Second - 1) / time.Second),
		retention: int64(cfg.Retention / time.Second),
	}
	c.seen.Store(-1)
	return c
}

// now is the current second; -1 for an event clock before the first hit.
func (c *clock) now() int64 {
	if c.kind == WallClock {
		second := c.wall.second()
		if c.seen.Load() != second { // a store would take the line from other cores
			c.seen.Store(second)
		}
		return second
	}
	return c.seen.Load()
}

// judge decides on a hit's time: TooLate, Counted (so far) or an error. It reads
// the wall clock only where the time may matter.
func (c *clock) judge(second int64) (Outcome, error) {
	seen := c.seen.Load()
	if second <= seen && second > seen-c.retention/2 {
		return Counted, nil
	}
	if second > seen {
		if wall := c.wall.second(); second > wall+c.ahead {
			return Refused, tooFarAhead(second-wall, c.ahead)
		}
	}
	c.advance(second)
	if second > c.now()-c.retention {
		return Counted, nil
	}
	if c.kind == EventClock && c.runBack(second) {
		return Counted, nil
	}
	return TooLate, nil
}

// runBack restarts an event clock at the second of a hit, if it stands at one that has
// not come: the wall clock was ahead, and has run back.
func (c *clock) runBack(second int64) bool {
	seen := c.seen.Load()
	return seen > c.limit() && c.seen.CompareAndSwap(seen, second)
}

func tooFarAhead(by, most int64) error {
	return &Error{CodeTooFarAhead, "at", fmt.Sprintf(
		"at is %d s ahead of the clock, at most %d s are allowed: check the sender's clock and the unit of at", by, most)}
}

// limit is the last second that has come: no later one may move anything but its own
// record, whoever brings it.
func (c *clock) limit() int64 { return c.wall.second() + c.ahead }

// setAside notes n hits of a second after limit.
func (c *clock) setAside(second int64, n uint64, limit int64) {
	if second > limit+nearAhead {
		c.aside.Add(n)
		c.asideAt.Store(uint64(max(limit-c.ahead, 0)))
	}
}

// advance moves an event clock on to the second of a hit, which has come.
func (c *clock) advance(second int64) {
	if c.kind != EventClock {
		return
	}
	for seen := c.seen.Load(); second > seen && !c.seen.CompareAndSwap(seen, second); {
		seen = c.seen.Load()
	}
}

// wallClock reads the time of day, to the second. The system's is read by the
// monotonic clock, at half the cost, and by the time of day once a second.
//
// A jump ahead of more than maxJump is held back for jumpHold before it is
// believed: a hit from a clock that was wrong for a moment would make all later
// ones too late. A machine that was suspended jumps ahead rightly, and its hits
// are a few seconds behind. A jump back is believed at once: the hits are late,
// and counted.
type wallClock struct {
	source func() time.Time // nil: the system's
	base   atomic.Pointer[wallBase]

	correction atomic.Int64 // ns, added to what the clock says: see Replication.CorrectClock
}

const (
	maxJump  = time.Minute
	jumpHold = 10 * time.Second
)

// wallBase is one reading of the time of day.
type wallBase struct {
	at    time.Time     // for its monotonic part
	wall  time.Time     // the time of day then, or what is believed to be
	rest  time.Duration // from at to the end of wall's second
	doubt time.Time     // since when wall is held back; zero: it is not
}

// time is the time of day, as it is: without what holds jumps back.
func (w *wallClock) time() time.Time {
	return w.raw().Add(time.Duration(w.correction.Load()))
}

func (w *wallClock) raw() time.Time {
	if w.source != nil {
		return w.source()
	}
	return time.Now()
}

// correct adds by to what the clock says from now on.
func (w *wallClock) correct(by time.Duration) {
	w.correction.Store(int64(by))
	w.base.Store(nil)
}

func (w *wallClock) second() int64 {
	if w.source != nil {
		return w.time().Unix()
	}
	base := w.base.Load()
	if base != nil && time.Since(base.at) < base.rest {
		return base.wall.Unix()
	}
	now := time.Now()
	next := base.nextAt(now, now.Round(0).Add(time.Duration(w.correction.Load()))) // Round strips the monotonic part
	w.base.Store(next)
	return next.wall.Unix()
}

// nextAt is the reading that follows b, which may be nil, at a moment of the
// monotonic clock and its time of day.
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
