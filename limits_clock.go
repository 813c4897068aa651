package weir

import "time"

// limitClock has two times, in ns. What keys have used is kept by now, which begins at
// the time of day and goes on by the monotonic clock: a time of day that jumps, or was
// wrong at boot, neither gives an allowance nor takes one, and how long ago something was
// is always right. What leaves the process, in the journal and in snapshots, is told by
// the time of day as the engine has it then (ahead later than now), and what comes back
// is moved to now by how far the two are apart at that moment. So a node whose clock was
// set right is right to the others at once, and in its next life.
//
// While a machine is suspended, the monotonic clock stands still: what was used before
// counts for as long again as it would have been left.
type limitClock struct {
	start   time.Time
	base    int64
	source  func() time.Time     // nil: the system's
	elapsed func() time.Duration // nil: by source
	wall    *wallClock
}

func newLimitClock(cfg Config, wall *wallClock) limitClock {
	c := limitClock{start: time.Now(), source: cfg.Now, elapsed: cfg.Elapsed, wall: wall}
	c.base = wall.time().UnixNano()
	if c.elapsed != nil {
		c.base -= int64(c.elapsed())
	}
	return c
}

func (c *limitClock) now() int64 {
	switch {
	case c.elapsed != nil:
		return c.base + int64(c.elapsed())
	case c.source != nil:
		return c.source().UnixNano()
	}
	return c.base + int64(time.Since(c.start))
}

// ahead is how far the time of day is ahead of now.
func (c *limitClock) ahead() int64 {
	if c.source != nil && c.elapsed == nil {
		return c.wall.correction.Load()
	}
	return c.wall.time().UnixNano() - c.now()
}

// second is now, for receipts, which are kept by this clock too.
func (c *limitClock) second() int64 { return c.now() / int64(time.Second) }

func (c *limitClock) aheadSeconds() int64 { return c.ahead() / int64(time.Second) }
