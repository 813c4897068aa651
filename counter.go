package weir

import (
	"time"

	"github.com/weir-counter/weir/internal/engine"
)

// Counter counts one thing, for many goroutines. The zero Counter is ready and
// keeps hits for 30 days; it must not be copied.
//
// A hit in the current second takes no lock, nor does a read of the same window
// as the one before within that second; other reads take one for some nanoseconds.
type Counter engine.Counter

// NewCounter returns a Counter that keeps hits for at least retention, whole
// seconds from 1 s to MaxWindow.
func NewCounter(retention time.Duration) (*Counter, error) {
	c, err := engine.NewCounter(retention)
	return (*Counter)(c), err
}

func (c *Counter) inner() *engine.Counter { return (*engine.Counter)(c) }

// Hit counts one hit now. A program that hits often does not read the system's clock each
// time, and still gets the right second, unless the machine delays a timer by more than 100 ms.
func (c *Counter) Hit() { c.inner().HitN(1) }

// HitN counts n hits now; n = 0 changes nothing.
func (c *Counter) HitN(n uint64) { c.inner().HitN(n) }

// HitAt counts n >= 1 hits at a time from 1970 to now, in any order of times.
// TooLate is an outcome, not an error. A time more than 5 s after the system's
// clock is an error, CodeTooFarAhead, and changes nothing: it would make all
// later hits too late.
func (c *Counter) HitAt(at time.Time, n uint64) (Outcome, error) { return c.inner().HitAt(at, n) }

// Count answers how many hits lie in the last w, up to now. Where the window
// reaches back beyond the retention, no upper bound is known: older hits are
// refused, and those that were taken may have left.
func (c *Counter) Count(w time.Duration) (Count, error) { return c.inner().Count(w) }

// CountAt answers how many hits lie in (at-w, at]. If at has a fraction of a
// second, the two seconds that the window cuts are in doubt, and the bounds say so.
func (c *Counter) CountAt(at time.Time, w time.Duration) (Count, error) {
	return c.inner().CountAt(at, w)
}

// Load answers how many hits lie in the last w up to the newest hit: exact for w
// up to 300 s. An empty counter has a load of 0.
func (c *Counter) Load(w time.Duration) (Count, error) { return c.inner().Load(w) }

// QPS is Load per second of w.
func (c *Counter) QPS(w time.Duration) (Rate, error) { return c.inner().QPS(w) }
