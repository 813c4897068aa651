package limit

import (
	"math"
	"slices"
	"testing"
	"time"
)

// model is a limit kept the slow way: all that was admitted, by what the plan's form tells apart.
type model struct {
	p    *Plan
	all  []admissions // the oldest first
	debt int64        // GCRA: ns until the bucket is full
	seen int64
}

// unit is what the form tells apart: a time, an interval.
func (m *model) unit(at int64) int64 {
	if m.p.form == fixed {
		return at / m.p.interval
	}
	return at
}

// counted is whether an admission at a time still counts at another.
func (m *model) counted(at, now int64) bool {
	if m.p.form == fixed {
		return m.unit(now) == m.unit(at)
	}
	return now-at < m.p.interval
}

func (m *model) used(now int64) (n uint64) {
	if m.p.form == gcra {
		m.debt = max(0, m.debt-(now-m.seen))
		m.seen = now
		return uint64((m.debt + m.p.width - 1) / m.p.width)
	}
	for _, a := range m.all {
		if m.counted(a.at, now) {
			n += a.n
		}
	}
	return n
}

func (m *model) take(now int64, n uint64) bool {
	if m.used(now)+n > m.p.limit.Burst {
		return false
	}
	m.all = append(m.all, admissions{now, n})
	m.debt += int64(n) * m.p.width
	return true
}

func (m *model) refund(now, first, last int64, n uint64) (free uint64) {
	before := m.used(now)
	if m.p.form == gcra {
		m.debt -= max(0, min(m.debt, int64(min(n, m.p.limit.Burst))*m.p.width-(now-min(first, now))))
		return before - m.used(now)
	}
	gone := now-first >= m.p.interval
	if m.p.form == fixed {
		gone = m.unit(first) < m.unit(now)
	}
	if gone {
		return 0
	}
	give := func(a *admissions) {
		some := min(n, a.n)
		a.n -= some
		n -= some
	}
	for i := range m.all {
		if a := &m.all[i]; m.unit(a.at) >= m.unit(first) && m.unit(a.at) <= m.unit(last) && m.counted(a.at, now) {
			give(a)
		}
	}
	for i := len(m.all) - 1; i >= 0; i-- {
		if a := &m.all[i]; m.unit(a.at) < m.unit(first) && m.counted(a.at, now) {
			give(a)
		}
	}
	return before - m.used(now)
}

// Refund does as the slow way does, whatever the schedule, with the state through its bytes
// again and again. A Window with a larger burst than a log keeps exactly may be stricter: see
// TestRefundNeverOver.
func TestRefundIsTheModels(t *testing.T) {
	for seed := range uint64(250) {
		r := source(seed)
		p := randomPlan(t, r)
		for p.form == log && (p.merge > 1 || p.unit > 0) {
			p = randomPlan(t, r)
		}
		m := &model{p: p, seen: epoch}
		s := new(State)
		now := epoch
		for step := range 300 {
			now = randomTime(r, p, now, false)
			n := randomCount(r, p)
			if r.IntN(3) == 0 {
				first := now - r.Int64N(p.interval/2+2)*int64(r.IntN(2))
				last := first + r.Int64N(p.interval/8+2)*int64(r.IntN(2))
				before := copied(t, p, s)
				got, given := p.Refund(s, now, first, last, n)
				if want := m.refund(now, first, last, n); got != want || given < got || given > n {
					t.Fatalf("seed %d, step %d: %+v: %d given back, %d free, of %d from %d ns before, want %d", seed, step, p.limit, given, got, n, now-first, want)
				}
				if again, _ := p.Refund(before, now, first, last, given); again != got {
					t.Fatalf("seed %d, step %d: %+v: %d free after the %d that were given back of %d, want %d", seed, step, p.limit, again, given, n, got)
				}
			} else if n > 0 {
				if got, want := p.Allow(s, now, n), m.take(now, n); got != want {
					t.Fatalf("seed %d, step %d: %+v: allowed %v of %d, want %v", seed, step, p.limit, got, n, want)
				}
			}
			if r.IntN(10) == 0 {
				s = copied(t, p, s)
			}
			if got, want := p.Peek(s, now, 0).Remaining, p.limit.Burst-m.used(now); got != want {
				t.Fatalf("seed %d, step %d: %+v: %d left, want %d", seed, step, p.limit, got, want)
			}
		}
	}
}

// What was really used keeps each algorithm's guarantee, by brute force, when admissions are given
// back in any order, in parts, late, and while the limit changes to another of the same kind and back.
func TestRefundNeverOver(t *testing.T) {
	for seed := range uint64(250) {
		r := source(seed)
		p := randomPlan(t, r)
		narrow := Limit{N: 1 + p.limit.Burst/2, Per: p.Interval()} // of the same interval
		plans := []*Plan{p}
		if other, err := New(narrow); err == nil && seed%2 == 0 && p.limit.Algorithm == Window {
			plans = append(plans, other)
		}
		most := map[Algorithm]uint64{Window: p.limit.Burst, Fixed: 2 * p.limit.Burst, GCRA: 2*p.limit.Burst - 1}[p.limit.Algorithm]
		var used []admissions // really
		var s State
		now, in := epoch, p
		for step := range 300 {
			now = randomTime(r, p, now, false)
			if next := plans[r.IntN(len(plans))]; next != in {
				next.Adopt(&s, in, now)
				in = next
			}
			switch n := max(1, randomCount(r, in)); {
			case r.IntN(3) > 0:
				if !in.Allow(&s, now, n) {
					break
				}
				used = append(used, admissions{now, n})
				if in != p {
					break
				}
				if got := mostWithin(slices.Clone(used), p.interval); got > most {
					t.Fatalf("seed %d, step %d: %+v: %d really used within %v, at most %d", seed, step, p.limit, got, p.Interval(), most)
				}
			case len(used) > 0:
				a := &used[r.IntN(len(used))]
				n = min(n, a.n)
				a.n -= n
				if free, _ := in.Refund(&s, now, a.at, a.at+r.Int64N(p.interval/8+1)*int64(r.IntN(2)), n); free > n {
					t.Fatalf("seed %d, step %d: %d more are free for %d given back", seed, step, free, n)
				}
			}
		}
	}
}

// What is taken and given back at once leaves the limit as it was.
func TestRefundUndoes(t *testing.T) {
	for seed := range uint64(150) {
		r := source(seed)
		p := randomPlan(t, r)
		var s State
		now := epoch
		for range 100 {
			now = randomTime(r, p, now, false)
			before := p.Peek(&s, now, 0)
			n := randomCount(r, p)
			if !p.Allow(&s, now, n) {
				continue
			}
			if free, _ := p.Refund(&s, now, math.MaxInt64, math.MaxInt64, n); free != n {
				t.Fatalf("seed %d: %+v: %d of %d", seed, p.limit, free, n)
			}
			after := p.Peek(&s, now, 0)
			if p.merge > 1 && after.Reset > before.Reset { // the newest before it may count at its time
				after.Reset = before.Reset
			}
			if after != before {
				t.Fatalf("seed %d: %+v: %+v, and before %+v", seed, p.limit, after, before)
			}
			if r.IntN(2) == 0 {
				p.Allow(&s, now, randomCount(r, p))
			}
		}
	}
}

// A limit that was narrowed gives back what the wider one admitted, and is not free before all that is
// over its burst was given back.
func TestRefundOfAWiderLimit(t *testing.T) {
	for _, burst := range []uint64{4, 40} {
		wide, narrow := plan(t, Limit{N: 2 * burst, Per: time.Minute}), plan(t, Limit{N: burst, Per: time.Minute})
		var s State
		wide.Take(&s, epoch, 2*burst)
		narrow.Adopt(&s, wide, epoch+1)
		if free, _ := narrow.Refund(&s, epoch+2, epoch, epoch, burst); free != 0 || narrow.Allow(&s, epoch+2, 1) {
			t.Errorf("burst %d: %d free, and as many really used", burst, free)
		}
		if free, _ := narrow.Refund(&s, epoch+3, epoch, epoch, 1); free != 1 || !narrow.Allow(&s, epoch+3, 1) {
			t.Errorf("burst %d: %d free for one more", burst, free)
		}
		wide.Adopt(&s, narrow, epoch+4)
		if v := wide.Peek(&s, epoch+4, 0); v.Remaining != burst {
			t.Errorf("burst %d: the wider one again: %+v", burst, v)
		}
	}
}

// What is given back whole takes no place among the times that a narrowed limit keeps.
func TestRefundOfTheNewestAfterNarrowing(t *testing.T) {
	wide, narrow := plan(t, Limit{N: 5, Per: 10 * time.Second}), plan(t, Limit{N: 3, Per: 10 * time.Second})
	at := func(ms int64) int64 { return epoch + ms*int64(time.Millisecond) }
	var s State
	wide.Take(&s, at(0), 4)
	narrow.Adopt(&s, wide, at(5000))
	for i := range int64(3) {
		if !narrow.Allow(&s, at(10_000+i), 1) {
			t.Fatal("denied")
		}
	}
	if free, _ := narrow.Refund(&s, at(10_003), at(10_002), at(10_002), 1); free != 1 || !narrow.Allow(&s, at(10_004), 1) {
		t.Error("the one that is free was denied")
	}
	if narrow.Allow(&s, at(10_005), 1) {
		t.Error("4 are really used of 3")
	}
}

// No time overflows, and nothing is given back that is not there.
func TestRefundExtremes(t *testing.T) {
	for seed := range uint64(100) {
		p := randomPlan(t, source(seed))
		for _, now := range []int64{math.MinInt64, 0, epoch, math.MaxInt64} {
			for _, at := range []int64{math.MinInt64, 0, epoch, math.MaxInt64} {
				var s State
				if free, _ := p.Refund(&s, now, at, at, math.MaxUint64); free != 0 {
					t.Fatalf("%+v: %d of nothing", p.limit, free)
				}
				p.Take(&s, now, p.limit.Burst)
				if free, _ := p.Refund(&s, now, at, at, math.MaxUint64); free > p.limit.Burst {
					t.Fatalf("%+v: %d of %d", p.limit, free, p.limit.Burst)
				}
				copied(t, p, &s)
			}
		}
	}
}

// A quota by the calendar gives back what was taken in the present period, and nothing of those before.
func TestRefundByTheCalendar(t *testing.T) {
	p := plan(t, Limit{N: 10, Calendar: Calendar{Unit: Day}})
	var s State
	day := int64(24 * time.Hour)
	midnight := epoch / day * day
	p.Take(&s, midnight+1, 10)
	if free, _ := p.Refund(&s, midnight+day-1, midnight+1, midnight+1, 4); free != 4 {
		t.Errorf("%d of the same day", free)
	}
	p.Take(&s, midnight+day, 10)
	if free, _ := p.Refund(&s, midnight+day, midnight+1, midnight+1, 4); free != 0 {
		t.Errorf("%d of the day before", free)
	}
}

// A Window with a large burst gives back all that was taken, by the time of each admission, in any order, in parts and however late.
func TestRefundOfALargeBurst(t *testing.T) {
	for seed := range uint64(200) {
		r := source(seed)
		p := plan(t, Limit{N: exactBurst + 1 + r.Uint64N(1<<(1+r.IntN(19))), Per: time.Hour})
		var s State
		var all []admissions
		now := epoch
		for used := uint64(0); ; {
			now += r.Int64N(int64(time.Minute))
			n := 1 + r.Uint64N(p.limit.Burst/10)
			if used += n; used > p.limit.Burst || now-epoch > int64(50*time.Minute) {
				break
			}
			if !p.Allow(&s, now, n) {
				t.Fatal("denied within the burst")
			}
			all = append(all, admissions{now, n})
		}
		for len(all) > 0 {
			i := r.IntN(len(all))
			n := 1 + r.Uint64N(all[i].n)
			if free, given := p.Refund(&s, now, all[i].at, all[i].at, n); free != n || given != n {
				t.Fatalf("seed %d: %+v: %d of %d of %v ago", seed, p.limit, free, n, time.Duration(now-all[i].at))
			}
			if all[i].n -= n; all[i].n == 0 {
				all = append(all[:i], all[i+1:]...)
			}
		}
	}
}
