package envoy

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/policy"
)

var fleetSeeds = flag.Uint64("fleet.seeds", 2, "how many fleets of Envoys to simulate")

// fleet is a hundred simulated Envoys, the server's side of their streams, and a real engine.
type fleet struct {
	testing.TB
	rng    *rand.Rand
	now    time.Duration
	live   *admit.Live
	envoys []*simEnvoy
	log    []admitted // by all, in order
	ids    int
	faults bool
	phase  int // of what happens to all at once
	next   time.Duration
}

type admitted struct {
	at time.Duration
	n  int
}

// simEnvoy is an Envoy with one bucket. It spends tokens as soon as a request is there, or hoards them and spends them at once.
type simEnvoy struct {
	demand          float64 // requests per second
	due             float64
	hoards          bool
	tokens          float64
	quota           quota
	filled, expires time.Duration
	allowed, denied uint64
	reported        time.Duration
	reports         time.Duration // how often it reports
	down            time.Duration // until when it does not run
	stream          *simStream
	broken          time.Duration // until when it has no stream
	slow            time.Duration // how long its messages take, at most
	arrivals        []arrival
}

// simStream is the server's side.
type simStream struct {
	quotaBucket
	id       string
	seq      uint64
	asked    time.Duration
	reports  []simReport
	lastSent time.Duration // when the message before arrives: they are in order
	lastHere time.Duration
}

type arrival struct {
	at     time.Duration
	quota  quota
	stream *simStream
}

type simReport struct {
	at, elapsed     time.Duration
	allowed, denied uint64
}

const (
	fleetStep  = 20 * time.Millisecond
	fleetSize  = 100
	fleetLimit = 20_000
	fleetPer   = 10 * time.Second
)

func newFleet(t testing.TB, seed uint64, limit string) *fleet {
	f := &fleet{TB: t, rng: rand.New(rand.NewPCG(seed, 0))}
	e, err := engine.New(engine.Config{Now: func() time.Time { return start.Add(f.now) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	set, err := policy.Parse("policies", []byte("limits: [{name: all, keys: k, "+limit+"}]"))
	if err != nil {
		t.Fatal(err)
	}
	if f.live, err = admit.NewClusterLive(e, set, admit.Cluster{Region: "us"}); err != nil {
		t.Fatal(err)
	}
	for i := range fleetSize {
		f.envoys = append(f.envoys, &simEnvoy{demand: 10 + float64(i), reports: time.Second + time.Duration(f.rng.IntN(4000))*time.Millisecond})
	}
	return f
}

func (f *fleet) delay(e *simEnvoy) time.Duration {
	return time.Duration(f.rng.Int64N(int64(e.slow) + int64(50*time.Millisecond)))
}

// serve is the server's side of a stream for a step.
func (f *fleet) serve(e *simEnvoy) {
	s := e.stream
	for len(s.reports) > 0 && s.reports[0].at <= f.now {
		r := s.reports[0]
		s.reports = s.reports[1:]
		s.report(f.now, r.elapsed, r.allowed, r.denied)
	}
	if s.heard == 0 || f.now-s.asked < quotaRenew {
		return
	}
	s.asked = f.now
	s.seq++
	held, err := f.live.Hold(admit.Request{Key: "k"}, s.id, "", s.seq, func(name string, limit engine.Limit) admit.Hold { return s.order(f.now, name, limit) })
	if err != nil {
		f.Fatal(err)
	}
	if s.assign(f.now, held) {
		s.lastSent = max(s.lastSent, f.now+min(f.delay(e), quotaDelay))
		e.arrivals = append(e.arrivals, arrival{s.lastSent, s.quota, s})
	}
}

// run is an Envoy's step.
func (f *fleet) run(e *simEnvoy) {
	if f.now < e.down {
		return
	}
	for len(e.arrivals) > 0 && e.arrivals[0].at <= f.now {
		q := e.arrivals[0].quota
		e.arrivals = e.arrivals[1:]
		if f.now >= e.expires || q.burst != e.quota.burst || q.fill != e.quota.fill {
			e.quota, e.tokens, e.filled = q, float64(q.burst), f.now
		}
		e.expires = f.now + quotaLife
	}
	if e.stream == nil && f.now >= e.broken {
		f.ids++
		e.stream = &simStream{id: strconv.Itoa(f.ids), asked: -time.Hour}
		e.stream.busy = f.now
		e.reported = f.now - e.reports // a first report subscribes
	}
	if e.quota.fill > 0 {
		e.tokens = min(float64(e.quota.burst), e.tokens+float64(e.quota.fill)*(f.now-e.filled).Seconds()/e.quota.interval.Seconds())
		e.filled = f.now
	}
	e.due += e.demand * fleetStep.Seconds()
	if n := int(e.due); n > 0 && (!e.hoards && f.phase != allHoard || f.rng.IntN(500) == 0) {
		e.due -= float64(n)
		may := 0
		if f.now < e.expires {
			may = min(n, int(e.tokens))
		}
		e.tokens -= float64(may)
		e.allowed, e.denied = e.allowed+uint64(may), e.denied+uint64(n-may)
		if may > 0 {
			f.log = append(f.log, admitted{f.now, may})
		}
	}
	if s := e.stream; s != nil && f.now-e.reported >= e.reports {
		s.lastHere = max(s.lastHere, f.now+min(f.delay(e), quotaDelay))
		s.reports = append(s.reports, simReport{s.lastHere, f.now - e.reported, e.allowed, e.denied})
		e.reported, e.allowed, e.denied = f.now, 0, 0
	}
}

// harm kills, partitions, slows and hoards.
func (f *fleet) harm(e *simEnvoy) {
	second := time.Duration(f.rng.Int64N(int64(20 * time.Second)))
	switch f.rng.IntN(6 * int(10*time.Second/fleetStep)) {
	case 0: // killed: it forgets all
		*e = simEnvoy{demand: e.demand, reports: e.reports, down: f.now + second}
	case 1: // cut off: what is under way arrives, or is lost
		if e.stream = nil; f.rng.IntN(2) == 0 {
			e.arrivals = nil
		}
		e.broken = f.now + second
	case 2:
		e.slow = min(second, quotaDelay)
	case 3:
		e.hoards = !e.hoards
	case 4:
		e.slow, e.hoards = 0, false
	}
}

// The phases, one after the other by chance.
const (
	calm     = iota
	allHoard // and spend all at once when it ends
	allCut
	allSlow
	othersTake // whatever is left
	phases
)

func (f *fleet) step() {
	f.now += fleetStep
	if !f.faults {
		f.phase = calm
	} else if f.now >= f.next {
		f.phase, f.next = f.rng.IntN(phases), f.now+time.Second+time.Duration(f.rng.Int64N(int64(20*time.Second)))
		for _, e := range f.envoys {
			switch f.phase {
			case allCut:
				e.stream, e.broken = nil, f.next
			case allSlow:
				e.slow = quotaDelay
			}
		}
	}
	for _, e := range f.envoys {
		if f.faults {
			f.harm(e)
		}
		f.run(e)
		if e.stream != nil {
			f.serve(e)
		}
	}
	for f.faults && (f.phase == othersTake || f.rng.IntN(4) == 0) { // others take of the limit too
		var d admit.Decision
		n := 1 + f.rng.Uint64N(400)
		if err := f.live.TakeNow([]admit.Request{{Key: "k", N: n}}, &d); err != nil {
			f.Fatal(err)
		}
		if !d.Allowed {
			break
		}
		f.log = append(f.log, admitted{f.now, int(n)})
	}
}

func (f *fleet) until(end time.Duration) {
	for f.now < end {
		f.step()
	}
}

// check fails if any interval has more than the limit, and returns how many were admitted from a time on.
func (f *fleet) check(limit int, per, from time.Duration) (used int) {
	f.Helper()
	in, first, most := 0, 0, 0
	for _, a := range f.log {
		for in += a.n; f.log[first].at <= a.at-per; first++ {
			in -= f.log[first].n
		}
		if most = max(most, in); a.at > from {
			used += a.n
		}
	}
	if most > limit {
		f.Errorf("%d of %d in %v", most, limit, per)
	}
	return used
}

// A hundred Envoys that are killed, cut off and slow are never over the limit, and use at least 95 % of it when they are not.
func TestFleetOfEnvoys(t *testing.T) {
	t.Parallel()
	for seed := range *fleetSeeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, seed, fmt.Sprintf("limit: %d, per: %v", fleetLimit, fleetPer))
			f.faults = true
			f.until(3 * time.Minute)
			f.faults = false
			for _, e := range f.envoys {
				e.hoards, e.slow = false, 0
			}
			f.until(6 * time.Minute)
			used := f.check(fleetLimit, fleetPer, 5*time.Minute)
			if most := fleetLimit * int(time.Minute/fleetPer); used < most*95/100 {
				t.Errorf("%d of %d used in a minute", used, most)
			} else {
				t.Logf("%.1f %% used", 100*float64(used)/float64(most))
			}
			f = newFleet(t, seed, "limit: 200000, per: 1h") // what is reported counts as used
			f.faults = true
			f.until(2 * time.Minute)
			f.check(200_000, time.Hour, 0)
			f = newFleet(t, seed, "limit: 2000000, per: 1h")
			f.until(8 * time.Minute)
			if used := f.check(2_000_000, time.Hour, 0); used < 2_000_000*95/100 {
				t.Errorf("%d of 2000000 used of an hour", used)
			}
		})
	}
}
