package clock

import (
	"sync/atomic"
	"time"
)

// Wall reads the time of day, to the second. The system's is read by the
// monotonic clock, at half the cost, and by the time of day once a second.
//
// A jump ahead of more than maxJump is held back for jumpHold before it is
// believed: a hit from a clock that was wrong for a moment would make all later
// ones too late. A machine that was suspended jumps ahead rightly, and its hits
// are a few seconds behind. A jump back is believed at once: the hits are late,
// and counted.
//
// Who asks often pays for a load alone: the second stands in sure, and a timer takes it
// away some time before it ends. From then on each asks the system, until the next second
// is sure too: so nobody is told a second that is over, unless the timer is late by more
// than sureMargin.
type Wall struct {
	Source func() time.Time // nil: the system's
	base   atomic.Pointer[wallBase]
	sure   atomic.Int64 // the second that it is, for some time to come; 0: ask the system

	correction atomic.Int64 // ns, added to what the clock says: see replication.Engine.CorrectClock
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

// Correct adds by to what the clock says from now on.
func (w *Wall) Correct(by time.Duration) {
	w.correction.Store(int64(by))
	w.base.Store(nil)
	w.sure.Store(0)
}

// Corrected is what correct was told last.
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

// makeSure has Second answer with the second of the newest reading, without another look, for
// some time.
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
