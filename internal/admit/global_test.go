package admit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/policy"
)

// sharedWorld is a server alone of each region, all with one file, and what each knows of the others, spelled out as a list.
type sharedWorld struct {
	rigs  []*rig
	ahead []time.Duration // of each region's clock
	now   int64           // ns since the Unix epoch
	word  time.Duration   // for how long word of an admission is under way
	list  []toldAdmission
	late  []string
}

type toldAdmission struct {
	region int
	key    string
	at     int64 // ns
	second int64 // by the region's clock
	n      uint64
}

// known are what one region knows of the others: an Others.
type known struct {
	*sharedWorld
	self int
}

func (k known) Counted(key string, at time.Time, w time.Duration) (lower, upper uint64, late []string, err error) {
	if at.Nanosecond() != 0 || w%time.Second != 0 || w <= 0 {
		return 0, 0, nil, fmt.Errorf("window of %v to %v: no whole seconds", w, at)
	}
	for _, a := range k.list {
		if a.region != k.self && a.key == key && a.at+int64(k.word) <= k.now && a.second <= at.Unix() && a.second > at.Unix()-int64(w/time.Second) {
			lower += a.n
		}
	}
	return lower, lower, k.late, nil
}

func newSharedWorld(t *testing.T, file string, ahead ...time.Duration) *sharedWorld {
	t.Helper()
	w := &sharedWorld{ahead: ahead}
	for i := range ahead {
		r := &rig{t: t}
		r.now.Store(1_600_000_000e9)
		r.engine = newEngine(t, r)
		var err error
		if r.Live, err = NewClusterLive(r.engine, mustParse(t, file), Cluster{Region: fmt.Sprint("r", i), Others: known{w, i}}); err != nil {
			t.Fatal(err)
		}
		w.rigs = append(w.rigs, r)
	}
	w.advance(1_700_000_000e9)
	return w
}

func (w *sharedWorld) advance(by time.Duration) {
	w.now += int64(by)
	for i, r := range w.rigs {
		r.now.Store(w.now + int64(w.ahead[i]))
	}
}

// take asks a region for n of k, and tells the others what it admits.
func (w *sharedWorld) take(t *testing.T, region int, n uint64) Decision {
	t.Helper()
	var d Decision
	if err := w.rigs[region].Take([]Request{{Key: "k", N: n}}, &d); err != nil {
		t.Fatal(err)
	}
	if d.Allowed {
		w.list = append(w.list, toldAdmission{region, "limit:a:global:k", w.now, (w.now + int64(w.ahead[region])) / 1e9, n})
	}
	return d
}

// within is what some regions admitted in (now-length, now].
func (w *sharedWorld) within(length time.Duration, of func(region int) bool) (n uint64) {
	for _, a := range w.list {
		if a.at > w.now-int64(length) && of(a.region) {
			n += a.n
		}
	}
	return n
}

func anyRegion(int) bool { return true }

const sharedLimit = "limits:\n  - {name: a, keys: \"k*\", limit: %d, per: 1m, where: global, within: shared}\n"

// Whose requests go from region to region, and find that each knows of the others, never gets more than the burst in any interval, though
// the clocks of regions differ.
func TestSharedByRegionsInTurn(t *testing.T) {
	t.Parallel()
	for _, burst := range []uint64{1, 5, 16, 50} {
		for seed := range uint64(6) {
			rng := rand.New(rand.NewPCG(seed, burst))
			w := newSharedWorld(t, fmt.Sprintf(sharedLimit, burst), 0, time.Duration(rng.Int64N(int64(regionClocks))), -time.Duration(rng.Int64N(int64(regionClocks))))
			w.ahead[2] = max(w.ahead[2], w.ahead[1]-regionClocks)
			most := uint64(0)
			for range 40 + 12*burst {
				w.advance(time.Duration(rng.Int64N(int64(3*time.Minute) / int64(4*burst))))
				w.take(t, rng.IntN(3), 1+rng.Uint64N(2)*rng.Uint64N(min(3, burst)))
				most = max(most, w.within(time.Minute, anyRegion))
			}
			if most > burst || most < burst/2 {
				t.Errorf("seed %d: %d admissions in a minute, of %d", seed, most, burst)
			}
			if over := w.rigs[0].Global("a").Over; over != 0 {
				t.Errorf("seed %d: an overshoot of %d is told", seed, over)
			}
		}
	}
}

// An adversary that asks regions faster than word of it goes gets no more than the burst and, of each other region, the
// burst or what it was asked for within that time; what the metric says was over was.
func TestBoundOfSharedByRegions(t *testing.T) {
	t.Parallel()
	const word = 3 * time.Second
	for _, burst := range []uint64{3, 16, 40} {
		worst, told := uint64(0), uint64(0)
		for seed := range uint64(8) {
			rng := rand.New(rand.NewPCG(seed, burst))
			w := newSharedWorld(t, fmt.Sprintf(sharedLimit, burst), 0, time.Second, -time.Second)
			w.word = word
			over := uint64(0)
			asked := [3][]int64{}
			for range 30 * burst {
				if rng.IntN(3) == 0 {
					w.advance(time.Duration(rng.Int64N(int64(2*time.Minute) / int64(8*burst))))
				}
				if rng.IntN(int(8*burst)) == 0 {
					w.advance(time.Minute + 10*time.Second)
				}
				at := rng.IntN(3)
				asked[at] = append(asked[at], w.now)
				d := w.take(t, at, 1)
				if !d.Allowed {
					continue
				}
				bound := burst
				for other := range 3 {
					if other != at {
						recent := 0
						for _, when := range asked[other] {
							if when > w.now-int64(word) {
								recent++
							}
						}
						bound += min(burst, uint64(recent))
					}
				}
				if got := w.within(time.Minute, anyRegion); got > bound {
					t.Fatalf("seed %d: %d admissions in a minute, more than the bound of %d", seed, got, bound)
				} else if got > burst {
					over = max(over, got-burst)
				}
			}
			worst = max(worst, over)
			for _, r := range w.rigs {
				said := r.Global("a").Over
				told = max(told, said)
				if slack := burst / 8; said > over+slack { // sub-slots count an admission for up to a sixteenth longer
					t.Errorf("seed %d: an overshoot of %d is told, and %d were over", seed, said, over)
				}
			}
		}
		if worst == 0 || told == 0 {
			t.Errorf("burst %d: %d were over, %d told: this proves little", burst, worst, told)
		}
	}
}

// Each decision, and when a denied one passes, is that of a list of admissions.
func TestSharedByRegionsAsInTheModel(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 8))
	const burst, window = 6, int64(time.Minute)
	w := newSharedWorld(t, fmt.Sprintf(sharedLimit, burst), 0, 900*time.Millisecond, -700*time.Millisecond)
	w.word = 1500 * time.Millisecond
	denied := 0
	for range 2000 {
		w.advance(time.Duration(rng.Int64N(int64(8 * time.Second))))
		at, n := rng.IntN(3), 1+rng.Uint64N(2)
		heard := w.now // what the region knows stays so while it waits
		passes := func(after int64) bool {
			used := n
			edge := (w.now+after+int64(w.ahead[at])+int64(regionClocks))/1e9 - 65
			for _, a := range w.list {
				if a.region == at && a.at > w.now+after-window || a.region != at && a.at+int64(w.word) <= heard && a.second > edge {
					used += a.n
				}
			}
			return used <= burst
		}
		want := passes(0)
		wait := int64(0)
		if !want {
			wait = int64(2 * time.Minute)
			try := func(after int64) {
				if after > 0 && after < wait && passes(after) {
					wait = after
				}
			}
			for _, a := range w.list {
				try(a.at + window - w.now)
			}
			for s := range int64(70) {
				try(s*1e9 - (w.now+int64(w.ahead[at]))%1e9)
			}
		}
		d := w.take(t, at, n)
		if d.Allowed != want {
			t.Fatalf("allowed %v, want %v: %+v", d.Allowed, want, d.Results)
		}
		if !want {
			denied++
			if got := int64(d.RetryAfter); got < wait || got > wait+int64(time.Second) || !passes(got) || d.Denied.Reset < d.RetryAfter {
				t.Fatalf("retry after %v, want %v or up to a second more: %+v", d.RetryAfter, time.Duration(wait), d.Results)
			}
		}
		if own := w.rigs[at].hits("limit:a:global:k"); own != w.counted(at) {
			t.Fatalf("%d hits for the other regions, want %d", own, w.counted(at))
		}
	}
	if denied < 500 || denied > 1900 {
		t.Errorf("%d of 2000 denied: this proves little", denied)
	}
}

// counted is what a region counted for the others in the last 5 minutes, by its clock.
func (w *sharedWorld) counted(region int) (n uint64) {
	second := (w.now + int64(w.ahead[region])) / 1e9
	for _, a := range w.list {
		if a.region == region && a.second > second-300 {
			n += a.n
		}
	}
	return n
}

// engines are those of other regions as a node has them: an Others.
type engines []*engine.Engine

func (e engines) Counted(key string, at time.Time, w time.Duration) (lower, upper uint64, late []string, err error) {
	for _, one := range e {
		c, failed := one.CountAt(at, key, w)
		lower, upper, err = lower+c.Lower, upper+c.Upper, errors.Join(err, failed)
	}
	return lower, upper, nil, err
}

// A denial passes when it says so, also of windows of which older slots are wide.
func TestRetryOfLongLimitsSharedByRegions(t *testing.T) {
	t.Parallel()
	const file = "limits:\n- {name: a, keys: k, limit: 30, per: 6h, where: global, within: shared}\n"
	rng := rand.New(rand.NewPCG(1, 2))
	rigs := regionsRig(t, "limits: []", "eu", "us")
	for i, r := range rigs {
		var err error
		if r.Live, err = NewClusterLive(r.engine, mustParse(t, file), Cluster{Region: "eu", Others: engines{rigs[1-i].engine}}); err != nil {
			t.Fatal(err)
		}
	}
	advance := func(by time.Duration) {
		for _, r := range rigs {
			r.now.Add(int64(by))
		}
	}
	denied := 0
	for range 400 {
		advance(time.Duration(rng.Int64N(int64(20 * time.Minute))))
		r := rigs[rng.IntN(2)]
		var d Decision
		reqs := []Request{{Key: "k", N: 1 + rng.Uint64N(4)}}
		if err := r.Take(reqs, &d); err != nil {
			t.Fatal(err)
		}
		if d.Allowed {
			continue
		}
		denied++
		if d.RetryAfter > 6*time.Hour*18/16 {
			t.Errorf("retry after %v", d.RetryAfter)
		}
		advance(d.RetryAfter)
		if err := r.Take(reqs, &d); err != nil || !d.Allowed {
			t.Fatalf("denied when it was to pass: %v %+v", err, d.Results)
		}
	}
	if denied < 50 {
		t.Errorf("%d denied: this proves little", denied)
	}
}

// Decisions go on while a region is late, and name it; what is done by hand reaches the others, or is refused.
func TestSharedByRegionsByHand(t *testing.T) {
	t.Parallel()
	w := newSharedWorld(t, fmt.Sprintf(sharedLimit, 4)+policyOf("n", "k*", 9, ""), 0, 0)
	w.take(t, 1, 3)
	w.late = []string{"r1", "r2/n1"}
	d := w.take(t, 0, 1)
	if r := d.Results[0]; !d.Allowed || r.Others != 3 || r.Remaining != 0 || !slices.Equal(r.Late, w.late) || d.Results[1].Others != 0 || d.Results[1].Remaining != 8 {
		t.Errorf("%+v", d.Results)
	}
	if d = w.take(t, 0, 2); d.Allowed || d.Denied.Name != "a" || d.Denied.Remaining != 0 || d.At() != 0 {
		t.Errorf("%+v", d.Results)
	}
	r := w.rigs[0]
	if err := r.Peek([]Request{{Key: "k", N: 1}}, &d); err != nil || d.Allowed {
		t.Errorf("%+v, %v", d.Results, err)
	}
	if got := r.Global("a"); got != (GlobalFigures{Late: 2}) {
		t.Errorf("%+v", got)
	}
	if used, late, err := r.Others("a", "k"); used != 3 || len(late) != 2 || err != nil {
		t.Errorf("%d %v %v", used, late, err)
	}
	if used, _, err := r.Others("n", "k"); used != 0 || err != nil {
		t.Errorf("of a limit that is not over regions: %d, %v", used, err)
	}
	if _, ok, err := r.Reset("a", "k"); !ok || err != nil || r.hits("limit:a:global:k") != 0 {
		t.Errorf("reset: %v, %v, and %d hits", ok, err, r.hits("limit:a:global:k"))
	}
	if d = w.take(t, 0, 1); !d.Allowed || d.Results[0].Remaining != 0 {
		t.Errorf("after a reset: %+v", d.Results)
	}
	err := r.Reserve([]Request{{Key: "k", N: 1}}, engine.Reservation{ID: "x", Until: time.Unix(0, r.now.Load()).Add(time.Minute)}, &d)
	if err == nil || !strings.Contains(err.Error(), "can't be reserved of") {
		t.Errorf("reservation: %v", err)
	}
	if err := r.Take([]Request{{Key: "k" + strings.Repeat("x", 500), N: 1}}, &d); err == nil || !strings.Contains(err.Error(), "must have at most 497") {
		t.Errorf("long key: %v", err)
	}
}

// What regions can't share, a server does not take.
func TestWhatRegionsCanShare(t *testing.T) {
	t.Parallel()
	for more, want := range map[string]string{
		"per: 1m, within: shared, regions: {eu: 60%}":                                   "regions: with `within: shared` regions have no parts, and each counts what it knows of the others: remove it, or write another within",
		"per: 1m, within: shared, algorithm: gcra":                                      "algorithm: regions share limits of `algorithm: window` alone without parts: remove it, or write `regions` in place of `within: shared`",
		"per: 1m, within: shared, algorithm: fixed":                                     "algorithm: regions share limits of `algorithm: window` alone without parts: remove it, or write `regions` in place of `within: shared`",
		"per: month, within: shared":                                                    "per: regions share no quota by the calendar without parts: write a period as 1h, or `regions` in place of `within: shared`",
		"per: 1m, within: shared, wait: 1s":                                             "wait: nobody waits for what other regions have used: remove it, or write `regions` in place of `within: shared`",
		"per: 9s, within: shared":                                                       "burst: the burst is back after 9s: regions know of each other some seconds later, so a limit that they share without parts needs 10s or more; write a longer per with as much more of limit and burst, or `regions` in place of `within: shared`",
		"per: 1m, within: shared, overrides: [{key: k, burst: 1}]":                      "overrides.burst: the burst is back after 6s: regions know of each other some seconds later, so a limit that they share without parts needs 10s or more; write a longer per with as much more of limit and burst, or `regions` in place of `within: shared`",
		"per: 1m, within: alone":                                                        `within: "alone"; there are leased, strict, shared`,
		"per: 1m, within: shared, away: open":                                           "away: it is for strict and leased limits, whose one node that decides may be away: remove it, or the `within`",
		"per: 1m, within: shared, overrides: [{key: k, limit: 20, burst: 20, per: 1m}]": "",
	} {
		_, err := policy.Parse("p.yaml", []byte("limits:\n- {name: a, keys: k, limit: 10, where: global, "+more+"}\n"))
		if want == "" && err == nil {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "p.yaml:2: "+want) {
			t.Errorf("%s: %v, want %s", more, err, want)
		}
	}
	r := newRig(t, "limits: []")
	set := mustParse(t, fmt.Sprintf(sharedLimit, 4))
	if err := r.Replace(set); err == nil || !strings.Contains(err.Error(), "this server counts for none") {
		t.Errorf("without a region: %v", err)
	}
	if _, err := NewClusterLive(r.engine, set, Cluster{Region: "eu", Divided: true}); err == nil || !strings.Contains(err.Error(), "a cluster with --replicas does not decide") {
		t.Errorf("with --replicas: %v", err)
	}
	long := mustParse(t, "limits:\n- {name: a, keys: k, limit: 10, per: 30d, where: global, within: shared}\n")
	if _, err := NewClusterLive(r.engine, long, Cluster{Region: "eu"}); err == nil || !strings.Contains(err.Error(), "raise --retention in all regions") {
		t.Errorf("longer than hits are kept: %v", err)
	}
	if live, err := NewClusterLive(r.engine, long, Cluster{Whole: true}); err != nil || live.Set().At(0).WhereText() != "shared" {
		t.Errorf("a replay of what all regions were asked: %v", err)
	}
}

// forms are decisions that know two other regions, each with 30 admissions of the key.
func sharedForms(t testing.TB) (r *rig, forms []string) {
	t.Helper()
	r = newRig(t, "limits: []")
	r.now.Store(time.Unix(1_700_000_000, 0).UnixNano())
	var others engines
	for range 2 {
		e, err := engine.New(engine.Config{Partitions: 4, Memory: 4 << 20, Now: func() time.Time { return time.Unix(0, r.now.Load()) }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		for i := range 30 {
			for _, name := range []string{"allowed", "denied", "day"} {
				if _, err := e.HitAt(time.Unix(1_700_000_000-int64(i), 0), "limit:"+name+":global:"+name, 1); err != nil {
					t.Fatal(err)
				}
			}
		}
		others = append(others, e)
	}
	var err error
	file := "limits:\n- {name: allowed, keys: allowed, limit: 60000000, per: 1m, where: global, within: shared}\n" +
		"- {name: denied, keys: denied, limit: 60, per: 1m, where: global, within: shared}\n- {name: day, keys: day, limit: 60, per: 1d, where: global, within: shared}\n" +
		"- {name: plain, keys: plain, limit: 60000000, per: 1m, where: shared}\n"
	if r.Live, err = NewClusterLive(r.engine, mustParse(t, file), Cluster{Region: "eu", Others: others}); err != nil {
		t.Fatal(err)
	}
	return r, []string{"plain", "allowed", "denied", "day"}
}

// It allocates the key that other regions count an admission under.
func TestSharedByRegionsAllocates(t *testing.T) {
	r, forms := sharedForms(t)
	for _, key := range forms {
		var d Decision
		reqs := []Request{{Key: key, N: 1}}
		most := 1.0
		if key == "plain" {
			most = 0
		}
		if got := testing.AllocsPerRun(200, func() {
			if err := r.Take(reqs, &d); err != nil {
				t.Fatal(err)
			}
		}); got > most {
			t.Errorf("%s: %v allocations, want %v", key, got, most)
		}
	}
}

// What it costs that two other regions are asked: of a limit that regions do not share nothing.
func BenchmarkTakeSharedByRegions(b *testing.B) {
	r, forms := sharedForms(b)
	for _, key := range forms {
		b.Run(key, func(b *testing.B) {
			reqs := []Request{{Key: key, N: 1}}
			var d Decision
			b.ReportAllocs()
			for b.Loop() {
				if err := r.Take(reqs, &d); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
