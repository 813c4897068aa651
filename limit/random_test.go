package limit

import (
	"math/rand/v2"
	"testing"
	"time"
)

// epoch is a time of today in ns since the Unix epoch: most tests begin there.
const epoch = int64(1_800_000_000_000_000_000)

// source is the randomness of one seed.
func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 4)) }

// randomPlan is a plan of any algorithm with an n of 1 to a million, most of them
// with a burst of 1 to 40.
func randomPlan(t testing.TB, r *rand.Rand) *Plan {
	t.Helper()
	for {
		l := Limit{
			N:         1 + r.Uint64N(1<<(1+r.IntN(20)))%1_000_000,
			Per:       []time.Duration{time.Millisecond, time.Second, time.Minute, 24 * time.Hour, MaxPer}[r.IntN(5)],
			Burst:     1 + r.Uint64N(40),
			Algorithm: Algorithm(r.IntN(3)),
		}
		if r.IntN(8) == 0 {
			l.Burst = 0
		}
		if l.N > mostPer(l.Per) {
			continue
		}
		if p, err := New(l); err == nil { // else it takes over 100 years to fill
			return p
		}
	}
}

// randomStep is a time from one request to the next: none, short, about what one
// admission takes, about an interval; now and then below 0.
func randomStep(r *rand.Rand, p *Plan) int64 {
	switch r.IntN(12) {
	case 0:
		return -r.Int64N(p.interval + 1)
	case 1:
		return p.interval + r.Int64N(3) - 1
	case 2:
		return p.interval/16 + r.Int64N(3) - 1
	case 3, 4, 5:
		return 0
	default:
		return r.Int64N(2*p.interval/int64(p.limit.Burst) + 2)
	}
}

// randomTime is a time a randomStep from now, not before it unless it may run back.
func randomTime(r *rand.Rand, p *Plan, now int64, back bool) int64 {
	step := randomStep(r, p)
	if !back {
		step = max(0, step)
	}
	return clamp(now + step)
}

// randomCount is how many are asked for: mostly few, sometimes none or too many.
func randomCount(r *rand.Rand, p *Plan) uint64 {
	if r.IntN(4) > 0 {
		return 1
	}
	return r.Uint64N(p.limit.Burst + 2)
}

// copied is s through its bytes.
func copied(t testing.TB, p *Plan, s *State) *State {
	t.Helper()
	b := p.AppendState([]byte("before"), s)
	if n := len(b) - 6; n > 20+19*s.logEntries() && !s.HasPast() || n > 330+19*s.logEntries() {
		t.Fatalf("%+v: a state of %d bytes", p.limit, len(b)-6)
	}
	to := new(State)
	rest, err := p.DecodeState(to, append(b, "rest"...)[6:])
	if err != nil || string(rest) != "rest" {
		t.Fatalf("%+v: %+v: rest %q, %v", p.limit, s, rest, err)
	}
	return to
}
