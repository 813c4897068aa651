package clock

import "time"

// Limits has two times, in ns. What keys have used is kept by now, which begins at
// the time of day and goes on by the monotonic clock: a time of day that jumps, or was
// wrong at boot, neither gives an allowance nor takes one, and how long ago something was
// is always right. What leaves the process, in the journal and in snapshots, is told by
// the time of day as the engine has it then (ahead later than now), and what comes back
// is moved to now by how far the two are apart at that moment. So a node whose clock was
// set right is right to the others at once, and in its next life.
//
// While a machine is suspended, the monotonic clock stands still: what was used before
// counts for as long again as it would have been left.
type Limits struct {
	start   time.Time
	base    int64
	Source  func() time.Time     // nil: the system's
	elapsed func() time.Duration // nil: by source
	Wall    *Wall
}

// NewLimits returns one that begins now. source and elapsed, if they are not nil, are in
// place of the system's clocks.
func NewLimits(source func() time.Time, elapsed func() time.Duration, wall *Wall) Limits {
	c := Limits{start: time.Now(), Source: source, elapsed: elapsed, Wall: wall}
	c.base = wall.Time().UnixNano()
	if c.elapsed != nil {
		c.base -= int64(c.elapsed())
	}
	return c
}

// Now is in ns.
func (c *Limits) Now() int64 {
	switch {
	case c.elapsed != nil:
		return c.base + int64(c.elapsed())
	case c.Source != nil:
		return c.Source().UnixNano()
	}
	return c.base + int64(time.Since(c.start))
}

// At is Now and Ahead at a moment that Wall.Raw has just said, without another look at the system's clock.
func (c *Limits) At(raw time.Time) (now, ahead int64) {
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
func (c *Limits) Ahead() int64 {
	if c.Source != nil && c.elapsed == nil {
		return c.Wall.correction.Load()
	}
	return c.Wall.Time().UnixNano() - c.Now()
}

// Second is now, for receipts, which are kept by this clock too.
func (c *Limits) Second() int64 { return c.Now() / int64(time.Second) }

// AheadSeconds is Ahead, for receipts.
func (c *Limits) AheadSeconds() int64 { return c.Ahead() / int64(time.Second) }
