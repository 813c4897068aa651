package weir

import (
	"time"

	"github.com/weir-counter/weir/internal/engine"
)

// Counter counts one thing, for many goroutines. The zero Counter is ready and keeps hits for
// 30 days; it must not be copied. A hit in the current second takes no lock. Nor does a second
// read of one window within a second; other reads take a lock for some nanoseconds.
type Counter engine.Counter

// NewCounter returns a Counter that keeps hits for at least retention: whole seconds from 1 s to MaxWindow.
func NewCounter(retention time.Duration) (*Counter, error) {
	c, err := engine.NewCounter(retention)
	return (*Counter)(c), err
}

func (c *Counter) inner() *engine.Counter { return (*engine.Counter)(c) }

// Hit counts one hit now. The second is right unless the machine delays a timer by more than 100 ms.
func (c *Counter) Hit() { c.inner().HitN(1) }

// HitN counts n hits now; n = 0 changes nothing.
func (c *Counter) HitN(n uint64) { c.inner().HitN(n) }

// HitAt counts n >= 1 hits at a time from 1970 to now, in any order of times. TooLate is an outcome, not an error. A
// time more than 5 s in the future is an error, api.CodeTooFarAhead, and changes nothing.
func (c *Counter) HitAt(at time.Time, n uint64) (Outcome, error) { return c.inner().HitAt(at, n) }

// Count returns how many hits lie in the last w, up to now. A window that reaches back beyond the
// retention has no upper bound, because older hits are refused or may be gone.
func (c *Counter) Count(w time.Duration) (Count, error) { return c.inner().Count(w) }

// CountAt returns how many hits lie in (at-w, at]. If at has a fraction of a second, the bounds
// include both seconds that the window cuts.
func (c *Counter) CountAt(at time.Time, w time.Duration) (Count, error) {
	return c.inner().CountAt(at, w)
}

// Load returns how many hits lie in the last w up to the newest hit; 0 without hits.
func (c *Counter) Load(w time.Duration) (Count, error) { return c.inner().Load(w) }

// QPS is Load per second of w.
func (c *Counter) QPS(w time.Duration) (Rate, error) { return c.inner().QPS(w) }
