package weir

import "time"

// Wall is the time of day by the engine's wall clock, corrected, whatever its Clock.
func (r *Replication) Wall() time.Time { return r.engine.clock.wall.time() }

// UncorrectedWall is Wall without what CorrectClock adds.
func (r *Replication) UncorrectedWall() time.Time { return r.engine.clock.wall.raw() }

// CorrectClock adds by to what the wall clock says, from now on: who knows that the clock
// of this machine is wrong, and by how much, need not wait until it is set.
func (r *Replication) CorrectClock(by time.Duration) { r.engine.clock.wall.correct(by) }

// ClockCorrection is what CorrectClock was told last.
func (r *Replication) ClockCorrection() time.Duration {
	return time.Duration(r.engine.clock.wall.correction.Load())
}

// LimitClockBehind is how far the time of day is ahead of the clock by which this process
// keeps what keys have used: by how much it was set, corrected, or stood still, since the
// engine was made. Limits are not wrong by it: see docs/limits-cluster.md.
func (r *Replication) LimitClockBehind() time.Duration {
	return time.Duration(r.engine.limits.clock.ahead())
}
