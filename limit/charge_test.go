package limit

import (
	"slices"
	"testing"
)

// What is charged in order leaves the state of what was admitted.
func TestChargeReplays(t *testing.T) {
	for seed := range uint64(300) {
		r := source(seed)
		p := randomPlan(t, r)
		var s, replayed State
		var order []admissions
		now := epoch
		for range 300 {
			now = randomTime(r, p, now, false)
			n := randomCount(r, p)
			if n > 0 && p.Allow(&s, now, n) {
				p.Charge(&replayed, now, n)
				order = append(order, admissions{now, n})
			}
			got, want := p.Peek(&replayed, now, n), p.Peek(&s, now, n)
			if got != want {
				t.Fatalf("seed %d: %+v: %+v, want %+v", seed, p.limit, got, want)
			}
		}
		if p.limit.Algorithm == GCRA {
			continue // has no past: what is late counts as more than it was
		}
		r.Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
		if p.limit.Algorithm == Window && len(order) > 100 {
			slices.Reverse(order)
		}
		var shuffled State
		for _, a := range order {
			p.Charge(&shuffled, a.at, a.n)
		}
		if got, want := p.Peek(&shuffled, now, 1), p.Peek(&s, now, 1); got != want {
			t.Fatalf("seed %d: %+v: shuffled %+v, want %+v", seed, p.limit, got, want)
		}
	}
}

// A charge never makes more space, at no later time.
func TestChargeGrantsNothing(t *testing.T) {
	for seed := range uint64(600) {
		r := source(seed)
		p := randomPlan(t, r)
		s := new(State)
		now := epoch
		for step := range 200 {
			now = randomTime(r, p, now, false)
			p.Allow(s, now, randomCount(r, p))
			charged := copied(t, p, s)
			at := now - r.Int64N(2*p.interval)
			p.Charge(charged, at, randomCount(r, p))
			later := now
			for range 4 {
				without, with := p.Peek(copied(t, p, s), later, 1), p.Peek(copied(t, p, charged), later, 1)
				if with.Remaining > without.Remaining || with.Reset < without.Reset {
					t.Fatalf("seed %d, step %d: %+v: %+v with the charge, %+v without", seed, step, p.limit, with, without)
				}
				later += r.Int64N(p.interval)
			}
			if r.IntN(3) == 0 {
				s = charged
			}
		}
	}
}

// An idle state decides as the zero one from then on, whatever comes; and every
// state is idle in the end.
func TestIdle(t *testing.T) {
	idle := 0
	for seed := range uint64(1500) {
		r := source(seed)
		p := randomPlan(t, r)
		s := new(State)
		now := epoch
		newest := now
		if !p.Idle(s, now) || !p.Idle(s, 0) {
			t.Fatalf("%+v: a zero state is not idle", p.limit)
		}
		for range r.IntN(40) {
			now = randomTime(r, p, now, true)
			newest = max(newest, now)
			p.Allow(s, now, randomCount(r, p))
		}
		now = clamp(now + r.Int64N(2*p.interval))
		newest = max(newest, now)
		before := p.AppendState(nil, s)
		is := p.Idle(s, now)
		if after := p.AppendState(nil, s); string(after) != string(before) {
			t.Fatalf("seed %d: %+v: Idle changed the state", seed, p.limit)
		}
		if used := p.Peek(copied(t, p, s), now, 0).Remaining < p.limit.Burst; is && used {
			t.Fatalf("seed %d: %+v: idle, but %+v", seed, p.limit, s)
		}
		if is {
			idle++
			zero := new(State)
			for range 100 {
				n := randomCount(r, p)
				if got, want := p.Take(s, now, n), p.Take(zero, now, n); got != want {
					t.Fatalf("seed %d: %+v: %+v, a zero state %+v", seed, p.limit, got, want)
				}
				now = randomTime(r, p, now, false)
			}
		}
		if late := max(now, newest) + 2*p.interval + int64(p.limit.Burst); late < maxTime && !p.Idle(s, late) {
			t.Fatalf("seed %d: %+v: not idle in the end: %+v", seed, p.limit, s)
		}
	}
	if idle < 300 {
		t.Fatalf("only %d of the states were idle: the test shows little", idle)
	}
}

// A state is idle from its Reset on, to the nanosecond; and not while a time seen
// only by a Peek is ahead, in whose sub-slot or interval admissions would count.
func TestIdleFromReset(t *testing.T) {
	for _, l := range coded {
		p := plan(t, l)
		var s State
		p.Allow(&s, epoch, 1)
		reset := epoch + int64(p.Peek(&s, epoch, 0).Reset)
		if p.Idle(&s, reset-1) || !p.Idle(&s, reset) {
			t.Errorf("%+v: idle %v just before Reset, %v at it", l, p.Idle(&s, reset-1), p.Idle(&s, reset))
		}
		var peeked State
		p.Peek(&peeked, epoch+p.interval, 1)
		if p.form == fixed {
			if p.Idle(&peeked, epoch) || !p.Idle(&peeked, epoch+p.interval) {
				t.Errorf("%+v: idle while the newest time seen is ahead, or not idle at it", l)
			}
		}
	}
}
