package limit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// plan makes a plan that must be right.
func plan(t testing.TB, l Limit) *Plan {
	t.Helper()
	p, err := New(l)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// mostWithin is the largest number of admissions in any interval (u-length, u],
// by brute force over all admission times, in order.
func mostWithin(admitted []admissions, length int64) (most uint64) {
	var sum uint64
	first := 0
	for _, a := range admitted {
		sum += a.n
		for admitted[first].at <= a.at-length {
			sum -= admitted[first].n
			first++
		}
		most = max(most, sum)
	}
	return most
}

// schedules are patterns of arrivals: each gives the next time after t.
func schedules(p *Plan) map[string]func(r *rand.Rand, t int64) int64 {
	T := p.interval
	return map[string]func(r *rand.Rand, t int64) int64{
		"always":   func(_ *rand.Rand, t int64) int64 { return t + max(1, T/997) },
		"at once":  func(_ *rand.Rand, t int64) int64 { return t },
		"random":   func(r *rand.Rand, t int64) int64 { return t + r.Int64N(max(1, T/50)+1) },
		"edges":    func(_ *rand.Rand, t int64) int64 { return t - t%max(1, T/16) + max(1, T/16) },
		"bursts":   func(r *rand.Rand, t int64) int64 { return t + T/2*int64(r.IntN(40)/39) },
		"one less": func(_ *rand.Rand, t int64) int64 { return t + T - 1 },
		"apart":    func(_ *rand.Rand, t int64) int64 { return t + T },
		"straddle": func(_ *rand.Rand, t int64) int64 { // the last moment of an interval, then the next
			if t%T == T-1 {
				return t + 1
			}
			if end := t - t%T + T - 1; end > t {
				return end
			}
			return t + T - 1
		},
	}
}

// The guarantee of each algorithm, by brute force: never one over.
func TestNeverOver(t *testing.T) {
	for _, l := range []Limit{
		{N: 1, Per: time.Second},
		{N: 10, Per: time.Second, Burst: 1},
		{N: 10, Per: time.Second, Burst: 2},
		{N: 10, Per: time.Second},
		{N: 16, Per: time.Millisecond},
		{N: 17, Per: time.Second},
		{N: 7, Per: 3 * time.Second, Burst: 100},
		{N: 1000, Per: time.Second},
		{N: 1000, Per: time.Millisecond},
		{N: 1_000_000, Per: time.Second},
		{N: 1_000_000, Per: time.Second, Burst: 33},
		{N: 100, Per: 24 * time.Hour},
		{N: 5, Per: MaxPer},
	} {
		for _, l.Algorithm = range []Algorithm{Window, Fixed, GCRA} {
			p := plan(t, l)
			b := p.limit.Burst
			bound := map[Algorithm]uint64{Window: b, Fixed: 2 * b, GCRA: 2*b - 1}[l.Algorithm]
			for name, next := range schedules(p) {
				r := rand.New(rand.NewPCG(b, uint64(l.Algorithm)))
				var s State
				var admitted []admissions
				now := r.Int64N(1 << 40)
				for range 6000 {
					n := 1 + r.Uint64N(b)*r.Uint64N(2)
					before := p.Peek(&s, now, n)
					v := p.Take(&s, now, n)
					if v.Allowed != before.Allowed || v.Allowed == (v.RetryAfter > 0) || v.Never {
						t.Fatalf("%+v %s: %+v after a peek of %+v", l, name, v, before)
					}
					if v.Allowed {
						admitted = append(admitted, admissions{now, n})
					} else if r.IntN(100) == 0 {
						now = tryAfter(t, p, &s, now, n, v)
						admitted = append(admitted, admissions{now, n})
					}
					if now = next(r, now); now > 1<<62 {
						break // 146 years: the end of such clocks is near
					}
				}
				if most := mostWithin(admitted, p.interval); most > bound {
					t.Fatalf("%+v %s: %d within %v, at most %d", l, name, most, p.Interval(), bound)
				}
			}
		}
	}
}

// tryAfter holds RetryAfter to its word: not a nanosecond before, and then.
func tryAfter(t *testing.T, p *Plan, s *State, now int64, n uint64, v Verdict) int64 {
	t.Helper()
	at := now + int64(v.RetryAfter)
	if early := p.Peek(s, at-1, n); early.Allowed {
		t.Fatalf("%+v: allowed before RetryAfter of %v", p.limit, v.RetryAfter)
	}
	if late := p.Take(s, at, n); !late.Allowed {
		t.Fatalf("%+v: not allowed after RetryAfter of %v: %+v", p.limit, v.RetryAfter, late)
	}
	return at
}

// What Window and GCRA admit to a caller who always asks: no less than stated.
func TestUnderAdmission(t *testing.T) {
	for _, l := range []Limit{{N: 10, Per: time.Second}, {N: 1000, Per: time.Second}, {N: 10_000, Per: time.Second}, {N: 256, Per: time.Minute}} {
		for _, l.Algorithm = range []Algorithm{Window, GCRA} {
			p := plan(t, l)
			var s State
			var admitted uint64
			const periods = 20
			step := max(1, p.interval/(5*int64(p.limit.Burst)))
			for now := int64(0); now < periods*p.interval; now += step {
				if p.Take(&s, now, 1).Allowed {
					admitted++
				}
			}
			least := float64(periods * p.limit.Burst)
			if float64(admitted) < 0.99*least {
				t.Errorf("%+v: admitted %d in %d intervals, want at least %.0f", l, admitted, periods, least)
			}
		}
	}
}

// The textbook's examples: 10 a second as a gap, looking back two, in any second.
func TestTextbook(t *testing.T) {
	ms := func(times ...float64) (list []int64) {
		for _, at := range times {
			list = append(list, int64(at*1e9))
		}
		return list
	}
	for name, s := range map[string]struct {
		burst uint64
		at    []int64
		want  string // a letter for each: admitted or denied
	}{
		"gap":      {1, ms(5, 5.05, 5.1, 5.2, 5.29, 5.3), "adaada"},
		"two back": {2, ms(0.1, 0.1001, 0.1002, 0.3, 0.3001, 0.4), "aadaad"},
		"any second": {10, ms(0.90, 0.91, 0.92, 0.93, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99, 1.00, 1.01, 1.89, 1.90, 1.91),
			"aaaaaaaaaadddaa"},
	} {
		p := plan(t, Limit{N: 10, Per: time.Second, Burst: s.burst})
		var state State
		var got strings.Builder
		for _, at := range s.at {
			if p.Take(&state, at, 1).Allowed {
				got.WriteByte('a')
			} else {
				got.WriteByte('d')
			}
		}
		if got.String() != s.want {
			t.Errorf("%s: %s, want %s", name, got.String(), s.want)
		}
	}
}

// A limit that changes while it is used grants no fresh allowance: what was
// admitted before counts, under the new limit, at the time it was or later.
func TestAdoptGrantsNothing(t *testing.T) {
	limits := []Limit{
		{N: 5, Per: time.Second}, {N: 10, Per: time.Second, Burst: 3}, {N: 100, Per: time.Second},
		{N: 1000, Per: time.Second}, {N: 20, Per: time.Minute}, {N: 300, Per: time.Minute},
	}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 5))
		var s State
		now := r.Int64N(1 << 40)
		p := plan(t, limits[r.IntN(len(limits))])
		var admitted []admissions
		for range 20 {
			next := plan(t, limits[r.IntN(len(limits))])
			next.Adopt(&s, p, now)
			p = next
			// From here on p's guarantee must hold for what p admits together with
			// what came before, as far as the plan before still knew it.
			began := len(admitted)
			for range 300 {
				now += r.Int64N(p.interval/20 + 1)
				if p.Take(&s, now, 1).Allowed {
					admitted = append(admitted, admissions{now, 1})
				}
			}
			if most := mostWithin(admitted[began:], p.interval); most > p.limit.Burst {
				t.Fatalf("seed %d: %+v: %d", seed, p.limit, most)
			}
		}
	}
	// The sharp case: a full burst, then the same limit again under another form.
	for _, pair := range [][2]Limit{
		{{N: 10, Per: time.Second}, {N: 20, Per: 2 * time.Second}},
		{{N: 20, Per: 2 * time.Second}, {N: 10, Per: time.Second}},
		{{N: 100, Per: time.Second, Algorithm: GCRA}, {N: 100, Per: time.Second}},
		{{N: 100, Per: time.Second}, {N: 100, Per: time.Second, Algorithm: Fixed}},
		{{N: 100, Per: time.Second, Algorithm: Fixed}, {N: 100, Per: time.Second, Algorithm: GCRA}},
	} {
		old, p := plan(t, pair[0]), plan(t, pair[1])
		var s State
		now := int64(1 << 40)
		old.Take(&s, now, old.limit.Burst)
		p.Adopt(&s, old, now)
		if v := p.Peek(&s, now, 1); v.Remaining > p.limit.Burst-min(p.limit.Burst, old.limit.Burst) {
			t.Errorf("%+v to %+v: %+v after a full burst", pair[0], pair[1], v)
		}
	}
}

// A time that runs back neither over-admits nor locks out.
func TestTimeRunsBack(t *testing.T) {
	for _, l := range []Limit{{N: 5, Per: time.Second}, {N: 500, Per: time.Second}} {
		for _, l.Algorithm = range []Algorithm{Window, Fixed, GCRA} {
			p := plan(t, l)
			var s State
			now := int64(time.Hour)
			p.Take(&s, now, p.limit.Burst)
			for back := range int64(10) {
				if v := p.Take(&s, now-back*int64(time.Minute), 1); v.Allowed {
					t.Errorf("%+v: admitted %d min back in time", l, back)
				}
			}
			if v := p.Take(&s, now+2*p.interval, 1); !v.Allowed {
				t.Errorf("%+v: locked out: %+v", l, v)
			}
		}
	}
}

func TestVerdicts(t *testing.T) {
	p := plan(t, Limit{N: 10, Per: time.Second})
	var s State
	if v := p.Take(&s, 0, 11); v.Allowed || !v.Never || v.RetryAfter != 0 {
		t.Errorf("more than the burst: %+v", v)
	}
	if v := p.Take(&s, 0, 4); !v.Allowed || v.Remaining != 6 || v.Reset != time.Second {
		t.Errorf("4 of 10: %+v", v)
	}
	if v := p.Take(&s, int64(time.Second/2), 7); v.Allowed || v.Remaining != 6 || v.RetryAfter != time.Second/2 {
		t.Errorf("7 more: %+v", v)
	}
	if v := p.Take(&s, int64(time.Second/2), 0); !v.Allowed || v.Remaining != 6 {
		t.Errorf("none: %+v", v)
	}
}

func TestNewNamesTheField(t *testing.T) {
	for field, l := range map[string]Limit{
		"n of 0":            {Per: time.Second},
		"n of 1000001":      {N: 1_000_001, Per: time.Second},
		"per of 0s":         {N: 1},
		"per of 9000h":      {N: 1, Per: 9000 * time.Hour},
		"burst of 2^46":     {N: 1, Per: time.Second, Burst: 1 << 46},
		"years to fill":     {N: 1, Per: MaxPer, Burst: 101},
		"algorithm 9":       {N: 1, Per: time.Second, Algorithm: 9},
		"n of 1001 per 1ms": {N: 1001, Per: time.Millisecond},
	} {
		field = strings.ReplaceAll(field, "2^46", fmt.Sprint(uint64(1)<<46))
		if _, err := New(l); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, l := range []Limit{{N: 1_000_000, Per: time.Second}, {N: 1000, Per: time.Millisecond}, {N: 1_000_000, Per: MaxPer}} {
		plan(t, l)
	}
}

func TestMostWithin(t *testing.T) {
	list := []admissions{{0, 1}, {5, 2}, {10, 4}, {11, 8}}
	var got []uint64
	for _, length := range []int64{1, 2, 6, 7, 11, 12} {
		got = append(got, mostWithin(list, length))
	}
	if want := []uint64{8, 12, 12, 14, 14, 15}; !slices.Equal(got, want) {
		t.Errorf("got %d, want %d", got, want)
	}
}
