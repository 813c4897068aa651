package limit

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// turns is a state that limits take turns with, beside all that a naive model says
// it must know: each admission with its time.
type turns struct {
	t     *testing.T
	r     *rand.Rand
	p     *Plan
	s     *State
	known []admissions    // in order of their times
	used  map[*Plan]int64 // when each limit was last in use
	all   []admissions    // without the charges
	now   int64
	last  int64 // the newest change of known
}

// within is how many of the known admissions are after now-length.
func (u *turns) within(length int64) (n uint64) {
	for _, a := range u.known {
		if a.at > u.now-length {
			n += a.n
		}
	}
	return n
}

// longest is the longest interval that matters.
func (u *turns) longest() (longest int64) {
	for p, used := range u.used {
		if u.now-used < p.interval {
			longest = max(longest, p.interval)
		}
	}
	return longest
}

// adopt forgets what may be forgotten, no more, and holds the new limit to the rest.
func (u *turns) adopt(p *Plan) {
	u.t.Helper()
	if *p == *u.p {
		return
	}
	u.restored()
	u.used[u.p] = u.now
	length := u.longest()
	u.known = slices.DeleteFunc(u.known, func(a admissions) bool { return a.at <= u.now-length })
	if u.r.IntN(8) == 0 {
		u.s = copied(u.t, u.p, u.s)
	}
	if len(u.known) == 0 { // all starts over
		clear(u.used)
	}
	idle := u.p.Idle(u.s, u.now)
	if idle && len(u.known) > 0 {
		u.t.Fatalf("%+v: idle with %v known", u.p.limit, u.known)
	}
	old := u.p
	p.Adopt(u.s, old, u.now)
	u.p = p
	free := p.limit.Burst - min(p.limit.Burst, u.within(p.interval))
	if v := p.Peek(u.s, u.now, 0); v.Remaining > free && !(p.form == fixed && p.sameCells(old)) { // the same intervals go on
		u.t.Fatalf("%+v to %+v: %+v, at most %d are left", old.limit, p.limit, v, free)
	}
}

// restored drops what Fixed and GCRA restored, and what was charged to a Window beyond its
// burst, while no other limit mattered.
func (u *turns) restored() {
	if u.s.HasPast() && u.s.past.lapsed(u.now, u.p.interval).interval > 0 {
		return
	}
	switch u.p.form {
	case log: // more were charged
		u.newest(u.p.limit.Burst)
	case fixed, gcra:
		u.newest(u.p.limit.Burst - u.p.Peek(u.s, u.now, 0).Remaining)
	}
}

// newest leaves the newest n of the known admissions.
func (u *turns) newest(n uint64) {
	for i := len(u.known) - 1; i >= 0; i-- {
		u.known[i].n = min(u.known[i].n, n)
		n -= u.known[i].n
	}
	u.known = slices.DeleteFunc(u.known, func(a admissions) bool { return a.n == 0 })
}

// ask asks for n, and counts by brute force what a Window admitted.
func (u *turns) ask(n uint64) {
	u.t.Helper()
	if n == 0 {
		return
	}
	before := u.p.Peek(u.s, u.now, n)
	if u.r.IntN(2) == 0 {
		if v := u.p.Take(u.s, u.now, n); v.Allowed != before.Allowed {
			u.t.Fatalf("%+v: %+v after a peek of %+v", u.p.limit, v, before)
		}
	} else if u.p.Allow(u.s, u.now, n) != before.Allowed {
		u.t.Fatalf("%+v: not allowed after a peek of %+v", u.p.limit, before)
	}
	if !before.Allowed {
		if !before.Never {
			u.retry(n, before)
		}
		return
	}
	u.know(admissions{u.now, n})
	u.all = append(u.all, admissions{u.now, n})
	if sum := u.within(u.p.interval); u.p.limit.Algorithm == Window && sum > u.p.limit.Burst {
		u.t.Fatalf("%+v: %d within %v", u.p.limit, sum, u.p.Interval())
	}
}

// charge charges a few, often late. Without a past a Window keeps its newest.
func (u *turns) charge() {
	a := admissions{u.now - u.r.Int64N(u.p.interval), 1 + u.r.Uint64N(3)}
	u.restored()
	u.p.Charge(u.s, a.at, a.n)
	u.know(a)
	if u.p.form == log && !u.s.HasPast() {
		u.newest(u.p.limit.Burst)
	}
}

func (u *turns) know(a admissions) {
	i, _ := slices.BinarySearchFunc(u.known, a.at+1, func(a admissions, at int64) int { return cmp.Compare(a.at, at) })
	u.known = slices.Insert(u.known, i, a)
	u.last = u.now
}

// retry holds RetryAfter and Reset to their word, on copies.
func (u *turns) retry(n uint64, v Verdict) {
	u.t.Helper()
	at := u.now + int64(v.RetryAfter)
	if at-1 >= u.now && u.p.Allow(copied(u.t, u.p, u.s), at-1, n) || !u.p.Allow(copied(u.t, u.p, u.s), at, n) {
		u.t.Fatalf("%+v: %+v for %d is not so", u.p.limit, v, n)
	}
	if !u.p.Allow(copied(u.t, u.p, u.s), u.now+int64(v.Reset), u.p.limit.Burst) {
		u.t.Fatalf("%+v: %+v: the burst is denied after Reset", u.p.limit, v)
	}
}

// takeTurns lets the limits adopt one state again and again, in a random order.
func takeTurns(t *testing.T, r *rand.Rand, plans []*Plan) *turns {
	t.Helper()
	u := &turns{t: t, r: r, p: plans[0], s: new(State), used: map[*Plan]int64{}, now: epoch + r.Int64N(plans[0].interval)}
	often := 1 + r.IntN(12)
	for range 300 {
		if r.IntN(often) == 0 {
			u.adopt(plans[r.IntN(len(plans))])
		}
		if r.IntN(often*4) == 0 {
			u.charge()
		}
		u.ask(randomCount(r, u.p))
		u.now = randomTime(r, plans[r.IntN(len(plans))], u.now, false)
	}
	return u
}

// nearby are limits that take turns: most of one period, some of another.
func nearby(t *testing.T, r *rand.Rand, algorithm func() Algorithm) (plans []*Plan) {
	pers := []time.Duration{time.Second, time.Second, time.Second, 1100 * time.Millisecond, 3 * time.Second, time.Minute, time.Hour}
	if r.IntN(2) == 0 {
		pers = pers[:1]
	}
	for range 2 + r.IntN(3) {
		l := Limit{N: 1 + r.Uint64N(40), Per: pers[r.IntN(len(pers))], Algorithm: algorithm()}
		if r.IntN(4) == 0 {
			l.Burst = 1 + r.Uint64N(40)
		}
		plans = append(plans, plan(t, l))
	}
	return plans
}

// Whatever limits take turns, no Window admits more than its burst of what the state
// must know, and no limit begins with more than that leaves.
func TestTurnsNeverOver(t *testing.T) {
	for seed := range uint64(1500) {
		r := source(seed)
		one := Algorithm(r.IntN(3))
		mixed := r.IntN(2) == 0
		u := takeTurns(t, r, nearby(t, r, func() Algorithm {
			if mixed {
				return Algorithm(r.IntN(3))
			}
			return one
		}))
		if t.Failed() {
			t.Fatalf("seed %d: %+v", seed, u.p.limit)
		}
	}
}

// With one interval nothing is forgotten: in any interval there are no more than the
// largest limit would have let in by itself.
func TestTurnsOfOneInterval(t *testing.T) {
	for seed := range uint64(800) {
		r := source(seed)
		algorithm := Algorithm(r.IntN(3))
		var plans []*Plan
		var most uint64
		for range 2 + r.IntN(3) {
			p := plan(t, Limit{N: 1 + r.Uint64N(40), Per: time.Second, Algorithm: algorithm})
			most = max(most, p.limit.Burst)
			plans = append(plans, p)
		}
		u := takeTurns(t, r, plans)
		bound := map[Algorithm]uint64{Window: most, Fixed: 2 * most, GCRA: 2*most - 1}[algorithm]
		if got := mostWithin(u.all, int64(time.Second)); got > bound {
			t.Fatalf("seed %d: %v: %d within a second, at most %d", seed, algorithm, got, bound)
		}
	}
}

// Limits that go on taking turns lock nobody out for longer than the longest interval
// after the last admission: no time moves on because a state is adopted.
func TestTurnsLockNobodyOut(t *testing.T) {
	for seed := range uint64(600) {
		r := source(seed)
		most := 1 + 2*r.IntN(2)
		plans := nearby(t, r, func() Algorithm { return Algorithm(r.IntN(most)) })
		u := takeTurns(t, r, plans)
		var longest int64
		for _, p := range plans {
			longest = max(longest, p.interval/16*18+int64(p.limit.Burst)+34) // a sub-slot of each of two limits
		}
		last := u.last
		if most > 1 { // Fixed and GCRA know no times before the first change, and count as if at it
			last += longest
		}
		for ; u.now < last+longest; u.now += longest / 200 {
			p := plans[r.IntN(len(plans))]
			p.Adopt(u.s, u.p, u.now)
			u.p = p
		}
		u.now = max(u.now, last+longest)
		for _, p := range plans {
			s := copied(t, u.p, u.s)
			if p.Adopt(s, u.p, u.now); *p != *u.p && !p.Allow(s, u.now, p.limit.Burst) {
				t.Fatalf("seed %d: %+v, then %+v: %+v at %v after the last", seed, u.p.limit, p.limit, p.Peek(s, u.now, 0), time.Duration(longest))
			}
		}
		u.now += u.p.interval // Fixed and GCRA, as if at the change
		if !u.p.Idle(u.s, u.now) {
			t.Fatalf("seed %d: %+v is not idle", seed, u.p.limit)
		}
	}
}

// Only what was narrowed costs memory, and no longer than it needs it.
func TestPastCostsOnlyTheNarrowed(t *testing.T) {
	const second = int64(time.Second)
	for _, a := range []Algorithm{Window, Fixed, GCRA} {
		for _, b := range [][2]uint64{{8, 10}, {15, 40}, {100, 1000}} {
			small, large := plan(t, Limit{N: b[0], Per: time.Second, Algorithm: a}), plan(t, Limit{N: b[1], Per: time.Second, Algorithm: a})
			var s State
			small.Take(&s, epoch, b[0])
			large.Adopt(&s, small, epoch)
			if s.HasPast() {
				t.Errorf("%v %d: a past by widening", a, b)
			}
			large.Take(&s, epoch, b[1]-b[0])
			small.Adopt(&s, large, epoch)
			if s.Size() > 296+32 {
				t.Errorf("%v %d: %d bytes", a, b, s.Size())
			}
			if v := small.Peek(&s, epoch, 1); v.Allowed || v.Remaining > 0 {
				t.Errorf("%v %d: %+v", a, b, v)
			}
			large.Adopt(&s, small, epoch)
			if v := large.Peek(&s, epoch, 1); v.Remaining > 0 || int64(v.Reset) > second+second/16 {
				t.Errorf("%v %d: %+v when widened again", a, b, v)
			}
			small.Adopt(&s, large, epoch+2*second)
			if s.Size() > 32 || !small.Idle(&s, epoch+2*second) {
				t.Errorf("%v %d: %+v when all is over", a, b, s)
			}
		}
	}
}

// Admissions of a wider limit that are charged to a narrower one count once it is widened.
func TestChargeBeyondTheBurst(t *testing.T) {
	for _, a := range []Algorithm{Window, Fixed, GCRA} {
		for _, narrow := range []uint64{8, 20} {
			p, wide := plan(t, Limit{N: narrow, Per: time.Second, Algorithm: a}), plan(t, Limit{N: 100, Per: time.Second, Algorithm: a})
			s := new(State)
			p.Charge(s, epoch, 3)
			p.Charge(s, epoch, 60)
			p.Charge(s, epoch, 5)
			s = copied(t, p, s)
			wide.Adopt(s, p, epoch)
			if v := wide.Peek(s, epoch, 1); v.Remaining != 32 {
				t.Errorf("%v %d: %+v, want 32", a, narrow, v)
			}
		}
	}
}
