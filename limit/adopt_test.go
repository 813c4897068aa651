package limit

import (
	"testing"
	"time"
)

// From one Window to another of no longer intervals: what both admitted together
// keeps the new limit at every admission, by brute force.
func TestAdoptNeverOver(t *testing.T) {
	for seed := range uint64(500) {
		r := source(seed)
		per := []time.Duration{time.Second, time.Minute, time.Hour}[r.IntN(3)]
		old := plan(t, Limit{N: 1 + r.Uint64N(60), Per: per, Burst: 1 + r.Uint64N(60)})
		p := plan(t, Limit{N: 1 + r.Uint64N(60), Per: per, Burst: 1 + r.Uint64N(60)})
		if p.interval > old.interval {
			old, p = p, old
		}
		var s State
		var known []admissions
		now := epoch + r.Int64N(old.interval)
		for range 200 {
			now = randomTime(r, old, now, false)
			if n := randomCount(r, old); n > 0 && old.Allow(&s, now, n) {
				known = append(known, admissions{now, n})
			}
		}
		now += r.Int64N(p.interval)
		p.Adopt(&s, old, now)
		for step := range 200 {
			if n := randomCount(r, p); n > 0 && p.Allow(&s, now, n) {
				known = append(known, admissions{now, n})
				var sum uint64
				for _, a := range known {
					if a.at > now-p.interval {
						sum += a.n
					}
				}
				if sum > p.limit.Burst {
					t.Fatalf("seed %d, step %d: %+v to %+v: %d", seed, step, old.limit, p.limit, sum)
				}
			}
			now = randomTime(r, p, now, false)
		}
	}
}

// Two limits of one state that take turns each millisecond: what was admitted
// leaves anyway.
func TestAdoptInTurns(t *testing.T) {
	for _, pair := range [][2]Limit{
		{{N: 3, Per: time.Second}, {N: 5, Per: time.Second}},
		{{N: 100, Per: time.Second}, {N: 300, Per: time.Second}},
		{{N: 10, Per: time.Second, Algorithm: Fixed}, {N: 20, Per: time.Second, Algorithm: Fixed}},
		{{N: 10, Per: time.Second, Algorithm: GCRA}, {N: 20, Per: time.Second, Algorithm: GCRA}},
		{{N: 10, Per: time.Second, Burst: 3, Algorithm: GCRA}, {N: 7, Per: time.Second, Algorithm: GCRA}},
	} {
		a, b := plan(t, pair[0]), plan(t, pair[1])
		var s State
		a.Take(&s, epoch, a.limit.Burst)
		for ms := range int64(1100) {
			now := epoch + ms*int64(time.Millisecond)
			b.Adopt(&s, a, now)
			if v := b.Peek(&s, now, 0); ms == 0 && v.Remaining > b.limit.Burst-min(b.limit.Burst, a.limit.Burst) {
				t.Errorf("%+v: %+v after a full burst", pair, v)
			}
			a, b = b, a
		}
		if now := epoch + int64(time.Second)*11/10; !a.Idle(&s, now) {
			t.Errorf("%+v: not idle after 1.1 s: %+v", pair, a.Peek(&s, now, 1))
		}
	}
}
