package keyspace

import (
	"testing"
	"time"
)

// A wall clock that is wrong for a moment is not believed; one that stays ahead
// is, after a while; one that goes back at once. A time has a wall and a
// monotonic part; steps move both, and the wall by an error more.
func TestWallClockHoldsJumpsBack(t *testing.T) {
	start := time.Now()
	var base *wallBase
	for i, s := range []struct {
		elapsed time.Duration // since the step before, by the monotonic clock
		wrong   time.Duration // by how much the time of day is off
		want    time.Duration // believed time of day, less the start
	}{
		{0, 0, 0},
		{time.Second, 0, time.Second},
		{time.Second, 365 * 24 * time.Hour, 2 * time.Second}, // a glitch of a year
		{time.Second, 0, 3 * time.Second},
		{time.Second, time.Hour, 4 * time.Second}, // and one that stays
		{5 * time.Second, time.Hour, 9 * time.Second},
		{5 * time.Second, time.Hour, time.Hour + 14*time.Second},
		{time.Second, time.Hour, time.Hour + 15*time.Second},
		{time.Second, 0, 16 * time.Second},                // back: at once
		{time.Second, 30 * time.Second, 47 * time.Second}, // small steps too
		{time.Second, 30 * time.Second, 48 * time.Second},
	} {
		mono := start
		if base != nil {
			mono = base.at.Add(s.elapsed)
		}
		base = base.nextAt(mono, mono.Round(0).Add(s.wrong))
		if got := base.wall.Sub(start.Round(0)); got != s.want {
			t.Errorf("step %d: believed %v, want %v", i, got, s.want)
		}
	}
}
