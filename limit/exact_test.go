package limit

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"
)

var exactSchedules = flag.Int("exact.schedules", 3000, "random schedules of TestWindowIsExact, a tenth of which TestLargeWindow has")

// slidingLog is the textbook's log: the time of each admission.
type slidingLog struct {
	burst    uint64
	interval int64
	times    []admissions // that count, the oldest first
	used     uint64
}

func (l *slidingLog) expire(now int64) {
	gone := 0
	for ; gone < len(l.times) && now-l.times[gone].at >= l.interval; gone++ {
		l.used -= l.times[gone].n
	}
	l.times = l.times[gone:]
}

func (l *slidingLog) take(now int64, n uint64) Verdict {
	l.expire(now)
	v := Verdict{Allowed: l.used+n <= l.burst, Never: n > l.burst}
	if v.Allowed && n > 0 {
		l.add(now, n)
	}
	left := l.used
	for i := 0; !v.Allowed && !v.Never && left+n > l.burst; i++ {
		left -= l.times[i].n
		v.RetryAfter = time.Duration(l.times[i].at + l.interval - now)
	}
	if l.used > 0 {
		v.Reset = time.Duration(l.times[len(l.times)-1].at + l.interval - now)
	}
	v.Remaining = l.burst - l.used
	return v
}

func (l *slidingLog) add(now int64, n uint64) {
	l.times = append(l.times, admissions{now, n})
	l.used += n
}

// schedule is when a random client asks: by a grid or not, at a rate of a tenth of the limit's to ten
// times it, in bursts, and at the edges of intervals.
type schedule struct {
	r          *rand.Rand
	interval   int64
	step, grid int64
	edges      int
}

func newSchedule(r *rand.Rand, p *Plan) schedule {
	rates := []int64{1, 5, 9, 10, 11, 20, 100}
	grids := []int64{1, 1, 1000, int64(time.Millisecond), max(1, p.interval/64)}
	return schedule{r, p.interval, 20*p.interval/int64(p.limit.Burst)/rates[r.IntN(len(rates))] + 1, grids[r.IntN(len(grids))], r.IntN(3) * 20}
}

func (s *schedule) next(now int64) int64 {
	switch k := s.r.IntN(100); {
	case k < 10:
		return now
	case k < 11:
		now += s.interval - s.r.Int64N(3) + 1
	case k < 11+s.edges:
		now += s.interval/16 - now%(s.interval/16+1)
	default:
		now += s.r.Int64N(s.step)
	}
	return now - now%s.grid
}

// Up to a burst of 256 a Window decides as the textbook's log does, whatever the schedule, to the
// nanosecond: whether, what is left, and when.
func TestWindowIsExact(t *testing.T) {
	t.Parallel()
	pers := []time.Duration{time.Millisecond, 777 * time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour, 90 * 24 * time.Hour}
	decisions, denied := 0, 0
	for seed := range uint64(*exactSchedules) {
		r := source(seed)
		l := Limit{N: 1 + r.Uint64N(exactBurst), Per: pers[r.IntN(len(pers))]}
		if r.IntN(3) == 0 {
			l.Burst = 1 + r.Uint64N(l.N)
		}
		p := plan(t, l)
		model := slidingLog{burst: p.limit.Burst, interval: p.interval}
		when := newSchedule(r, p)
		var s State
		now := epoch
		for step := range 50 + 2*int(r.Uint64N(p.limit.Burst+1)) {
			now = max(now, when.next(now))
			if now > maxTime-int64(MaxPer) {
				break
			}
			n := uint64(1)
			if r.IntN(8) == 0 {
				n = r.Uint64N(1 + p.limit.Burst/4)
			}
			want := model.take(now, n)
			var got Verdict
			if step%2 == 0 {
				got = p.Take(&s, now, n)
			} else {
				allowed := p.Allow(&s, now, n)
				if got = p.Peek(&s, now, n); got.Allowed != allowed || allowed != want.Allowed {
					got.Allowed, got.RetryAfter = allowed, want.RetryAfter // what is left decides of the next
				}
			}
			decisions++
			if !want.Allowed {
				denied++
			}
			if got != want {
				t.Fatalf("seed %d, step %d: %+v: %+v of %d, a log says %+v", seed, step, p.limit, got, n, want)
			}
		}
	}
	t.Logf("%d decisions of %d schedules, %d denials, as a log", decisions, *exactSchedules, denied)
}

// A larger burst admits at least 99 % of what the log admits of requests for 1, at any time and whatever the schedule,
// denies only while less than 1 % is free, and never admits more than the burst within T.
func TestLargeWindow(t *testing.T) {
	t.Parallel()
	least := 1.0
	for seed := range uint64(*exactSchedules/10 + 1) {
		r := source(seed)
		l := Limit{N: exactBurst + 1 + r.Uint64N(1<<(5+r.IntN(9))), Per: []time.Duration{time.Second, time.Minute, 24 * time.Hour}[r.IntN(3)]}
		p := plan(t, l)
		ideal := slidingLog{burst: p.limit.Burst, interval: p.interval}
		own := ideal // what the Window admitted
		when := newSchedule(r, p)
		ones := r.IntN(2) == 0
		var s State
		var admitted, log uint64
		now := epoch
		for step := range min(40_000, 4*int(p.limit.Burst)) {
			now = max(now, when.next(now))
			n := uint64(1)
			if !ones && r.IntN(8) == 0 {
				n += r.Uint64N(p.limit.Burst / 8)
			}
			own.expire(now)
			switch allowed := p.Allow(&s, now, n); {
			case allowed && own.used+n > own.burst:
				t.Fatalf("seed %d, step %d: %+v: %d within %v", seed, step, p.limit, own.used+n, p.Interval())
			case !allowed && own.used+n+p.limit.Burst/logParts <= own.burst:
				t.Fatalf("seed %d, step %d: %+v: %d denied with %d of %d used", seed, step, p.limit, n, own.used, own.burst)
			case allowed:
				own.add(now, n)
				admitted += n
			}
			if ones {
				if ideal.take(now, 1).Allowed {
					log++
				}
				if least = min(least, float64(admitted)/float64(log)); admitted*100 < log*99 {
					t.Fatalf("seed %d, step %d: %+v: %d admitted, %d by a log", seed, step, p.limit, admitted, log)
				}
			}
			if s.Size() > 8*p.most {
				t.Fatalf("%+v: %d bytes", p.limit, s.Size())
			}
		}
	}
	t.Logf("at least %.2f %% of what a log admits", 100*least)
}
