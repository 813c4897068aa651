package limit

import (
	"math"
	"testing"
	"time"
)

// Allow decides as Take does, and a state that went through bytes as one that did
// not, whatever the limit and the schedule.
func TestAllowIsTake(t *testing.T) {
	for seed := range uint64(600) {
		r := source(seed)
		p := randomPlan(t, r)
		took, allowed := new(State), new(State)
		now := epoch
		for step := range 500 {
			now = randomTime(r, p, now, true)
			n := randomCount(r, p)
			if r.IntN(10) == 0 {
				at := now - r.Int64N(p.interval+1)/2
				p.Charge(took, at, n)
				p.Charge(allowed, at, n)
			}
			if r.IntN(10) == 0 {
				allowed = copied(t, p, allowed)
			}
			before := p.Peek(took, now, n)
			v := p.Take(took, now, n)
			if a := p.Allow(allowed, now, n); a != v.Allowed || before.Allowed != a {
				t.Fatalf("seed %d, step %d: %+v: peek %+v, take %+v, allow %v of %d", seed, step, p.limit, before, v, a, n)
			}
			if after := p.Peek(allowed, now, 0); after.Remaining != v.Remaining || after.Reset != v.Reset {
				t.Fatalf("seed %d, step %d: %+v: %+v after a take, %+v after an allow", seed, step, p.limit, v, after)
			}
			if v.Allowed && (v.RetryAfter != 0 || v.Never) || v.Never != (n > p.limit.Burst) || v.Reset < 0 {
				t.Fatalf("seed %d, step %d: %+v: %+v", seed, step, p.limit, v)
			}
		}
	}
}

// At no time at which Window admits are more than the burst in the interval before
// it, by brute force over all admissions and charges, the late ones too, with the
// state through bytes again and again.
func TestNeverOverWithCharges(t *testing.T) {
	for seed := range uint64(400) {
		r := source(seed)
		p := randomPlan(t, r)
		for p.limit.Algorithm != Window {
			p = randomPlan(t, r)
		}
		var known []admissions
		s := new(State)
		now := epoch
		for step := range 400 {
			now = randomTime(r, p, now, false)
			if r.IntN(20) == 0 {
				s = copied(t, p, s)
			}
			if r.IntN(8) == 0 {
				a := admissions{now - r.Int64N(p.interval+p.interval/4+1), 1 + r.Uint64N(1+p.limit.Burst/4)}
				p.Charge(s, a.at, a.n)
				known = append(known, a)
			}
			n := max(1, randomCount(r, p))
			if !p.Allow(s, now, n) {
				continue
			}
			known = append(known, admissions{now, n})
			var sum uint64
			for _, a := range known {
				if a.at > now-p.interval {
					sum += a.n
				}
			}
			if sum > p.limit.Burst {
				t.Fatalf("seed %d, step %d: %+v: %d within %v", seed, step, p.limit, sum, p.Interval())
			}
		}
	}
}

// A Window up to a burst of 256 denies nothing that fits, charged or not.
func TestWindowIsExactWithCharges(t *testing.T) {
	for seed := range uint64(300) {
		r := source(seed)
		p := plan(t, Limit{N: 1 + r.Uint64N(1000), Per: time.Second, Burst: 1 + r.Uint64N(16<<r.IntN(5))})
		var known []admissions
		var s State
		now := epoch
		for step := range 400 {
			now = randomTime(r, p, now, false)
			if r.IntN(6) == 0 {
				a := admissions{now - r.Int64N(p.interval+2), 1 + r.Uint64N(2)}
				p.Charge(&s, a.at, a.n)
				known = append(known, a)
			}
			n := 1 + r.Uint64N(p.limit.Burst)*r.Uint64N(2)
			sum := n
			for _, a := range known {
				if a.at > now-p.interval {
					sum += a.n
				}
			}
			if got, want := p.Allow(&s, now, n), sum <= p.limit.Burst; got != want {
				t.Fatalf("seed %d, step %d: %+v: allowed %v, want %v", seed, step, p.limit, got, want)
			} else if got {
				known = append(known, admissions{now, n})
			}
		}
	}
}

// No time overflows: not with the longest intervals, and not outside of all times.
func TestExtremeTimes(t *testing.T) {
	for _, l := range []Limit{
		{N: 1, Per: MaxPer, Burst: 100}, {N: 1, Per: MaxPer, Burst: 10}, {N: 1, Per: MaxPer}, {N: 1, Per: time.Millisecond},
		{N: 1_000_000, Per: MaxPer, Burst: 99_999_999}, {N: 1_000_000, Per: time.Second, Burst: MaxBurst}, {N: 1_000_000, Per: time.Second},
	} {
		for _, l.Algorithm = range []Algorithm{Window, Fixed, GCRA} {
			p := plan(t, l)
			b := p.limit.Burst
			for _, now := range []int64{math.MinInt64, -1, 0, 1, epoch, maxTime - 1, maxTime, math.MaxInt64} {
				s := new(State)
				if v := p.Take(s, now, b); !v.Allowed || v.Remaining != 0 || v.Reset <= 0 || int64(v.Reset) > p.interval+int64(p.interval)>>14+int64(b) {
					t.Fatalf("%+v at %d: %+v of a zero state", l, now, v)
				}
				p.Charge(s, now, math.MaxUint64)
				if v := p.Take(s, now, b); v.Allowed || v.RetryAfter <= 0 || v.RetryAfter != v.Reset {
					t.Fatalf("%+v at %d: %+v after the burst", l, now, v)
				}
				if p.Allow(s, now, 1) || p.Allow(s, math.MinInt64, b) || p.Allow(s, now, math.MaxUint64) || !p.Allow(s, now, 0) {
					t.Fatalf("%+v at %d: wrong after the burst", l, now)
				}
				copied(t, p, s)
				if p.Idle(s, now) {
					t.Fatalf("%+v at %d: idle after the burst", l, now)
				}
				if later := clamp(now) + p.interval/16*17 + int64(b) + 17; later <= maxTime && !p.Allow(s, later, b) {
					t.Fatalf("%+v at %d: denied %d later", l, now, later-now)
				}
			}
		}
	}
}

// A key costs nothing beyond the State while its admissions were at one time, then 8 bytes for each
// time, and the space of a burst is given back once it has left.
func TestSize(t *testing.T) {
	for burst, want := range map[uint64]int{1: 0, 2: 16, 3: 24, 4: 32, 10: 80, 16: 128, 100: 800, 256: 2048, 257: 2 * 86 * 8, 100_000: 1600} {
		p := plan(t, Limit{N: 1_000_000, Per: time.Second, Burst: burst})
		var s State
		if p.Allow(&s, epoch, burst); s.Size() != 0 {
			t.Errorf("burst of %d: %d bytes for one time", burst, s.Size())
		}
		now, most := epoch+p.interval, 0
		for range 3 * burst {
			now += max(1, p.interval/int64(burst))
			p.Allow(&s, now, 1)
			most = max(most, s.Size())
		}
		if most > 8*p.most || burst <= exactBurst && most != want || burst > exactBurst && most > want {
			t.Errorf("burst of %d: %d bytes, want %d", burst, most, want)
		}
		p.Allow(&s, now+p.interval, 1)
		if s.Size() > 128 {
			t.Errorf("burst of %d: %d bytes when all is over", burst, s.Size())
		}
	}
	for _, algorithm := range []Algorithm{Fixed, GCRA} {
		p := plan(t, Limit{N: 100, Per: time.Second, Algorithm: algorithm})
		var s State
		if p.Allow(&s, epoch, 1); s.Size() != 0 {
			t.Errorf("%v: %d bytes", algorithm, s.Size())
		}
	}
}

// Who only asks changes no size: nobody accounts for it.
func TestAskingTakesNoMemory(t *testing.T) {
	for _, l := range benchmarked {
		p := plan(t, l)
		var s State
		now := epoch
		for step := range int64(60) {
			p.Allow(&s, now, 1)
			size := s.Size()
			for range step%19 + 1 {
				now += p.interval / 17
				p.Peek(&s, now, 1)
				p.AppendState(nil, &s)
				p.AppendKnown(nil, &s, now)
				if s.Size() != size {
					t.Fatalf("%+v: %d bytes, then %d", l, size, s.Size())
				}
			}
		}
	}
}

// Decisions allocate nothing once a key has its cells.
func TestAllocations(t *testing.T) {
	for _, l := range benchmarked {
		p := plan(t, l)
		var s State
		p.Take(&s, epoch, p.limit.Burst)
		now := epoch
		if got := testing.AllocsPerRun(1000, func() {
			now += p.interval / 7
			p.Allow(&s, now, 1)
			p.Take(&s, now, 1)
			p.Charge(&s, now-p.interval/2, 1)
		}); got != 0 {
			t.Errorf("%+v: %v allocations", l, got)
		}
	}
}
