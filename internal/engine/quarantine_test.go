package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/window"
)

const year = 365 * 24 * 3600

// One hit a year ahead, of another node, makes nothing too late: not for other keys, not
// for all hits, not for its own key.
func TestAppliedSecondsDoNotPoison(t *testing.T) {
	for _, kind := range []Clock{WallClock, EventClock} {
		now := unix(1_700_000_000)
		e := newTestEngine(t, Config{Clock: kind, Retention: time.Hour, Now: func() time.Time { return now }})
		e.HitAt(now, "a", 2)
		for _, ahead := range []int64{6, 100, 7200, year} {
			p := e.keys.PartitionOf("a")
			e.Apply(p, []replication.Delta{{Key: "a", At: now.Unix() + ahead, N: 10}}, nil)
		}
		for _, key := range []string{"a", "b"} {
			for _, at := range []time.Time{now, now.Add(-59 * time.Minute)} {
				if outcome, err := e.HitAt(at, key, 1); err != nil || outcome == TooLate {
					t.Errorf("%v: hit of %s: %v, %v", kind, key, outcome, err)
				}
			}
		}
		if err := e.Hit("c"); err != nil {
			t.Errorf("%v: %v", kind, err)
		}
		if !e.Now().Equal(now) {
			t.Errorf("%v: now is %v", kind, e.Now())
		}
		for key, want := range map[string]uint64{"a": 3, "b": 1, "c": 1, AllKeys: 5} {
			got, _ := e.Count(key, 5*time.Minute)
			checkBounds(t, "while it is ahead: "+key, got, want, true)
		}
		if s := e.Stats(); s.Quarantined != 20 || s.Hits != 7+40 || !s.NewestQuarantined.Equal(now) {
			t.Errorf("%v: %+v", kind, s)
		}
		now = now.Add(2 * time.Minute) // two of them have come
		e.HitAt(now, "a", 1)
		e.lookAhead()
		for key, want := range map[string]uint64{"a": 24, AllKeys: 26} {
			got, _ := e.CountAt(now, key, 5*time.Minute)
			checkBounds(t, "once they have come: "+key, got, want, true)
		}
		now = now.Add(2 * time.Hour)
		e.HitAt(now, "b", 1)
		e.lookAhead()
		for key, want := range map[string]uint64{"a": 10, AllKeys: 11} {
			got, _ := e.CountAt(now, key, 5*time.Minute)
			checkBounds(t, "after two hours: "+key, got, want, true)
		}
	}
}

// A clock that runs back for longer than the retention, while the engine runs: it goes on
// at once, of a hot key, a single one and all hits, and forgets nothing.
func TestClockRunsBackBeyondTheRetention(t *testing.T) {
	for _, gather := range []bool{false, true} {
		for _, kind := range []Clock{WallClock, EventClock} {
			now := unix(1_700_000_000).Add(2 * time.Hour)
			e := newTestEngine(t, Config{Clock: kind, Retention: time.Hour, Gather: gather, Now: func() time.Time { return now }})
			e.HitAt(now, "dense", 1)
			heatKey(e, "hot")
			for i := range 1000 {
				e.HitAt(now.Add(time.Duration(i-1000)*time.Second), "dense", 1)
			}
			e.HitAt(now, "hot", 3)
			now = now.Add(-2 * time.Hour)
			for _, key := range []string{"dense", "hot", "new"} {
				if outcome, err := e.HitAt(now, key, 5); err != nil || outcome == TooLate {
					t.Errorf("%s: %v, %v", key, outcome, err)
				}
				got, err := e.Count(key, 5*time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				checkBounds(t, key, got, 5, true)
			}
			got, _ := e.Count(AllKeys, 5*time.Minute)
			checkBounds(t, "all", got, 15, true)
			if gather {
				var cut replication.Cut
				sum := uint64(0)
				for p := range e.cfg.Partitions {
					e.Cut(p, &cut, false)
					for _, d := range cut.Deltas {
						sum += d.N
					}
				}
				if want := e.Stats().Hits; sum != want {
					t.Errorf("%d hits were cut of %d", sum, want)
				}
			}
			now = now.Add(2 * time.Hour)
			e.lookAhead()
			e.HitAt(now, "new", 1)
			for key, want := range map[string]uint64{"dense": 301 - 1, "hot": 3, AllKeys: 301 + 3} {
				got, _ := e.CountAt(now, key, 5*time.Minute)
				checkBounds(t, "forth again: "+key, got, want, true)
			}
		}
	}
}

// heatKey gives a key stripes.
func heatKey(e *Engine, key string) {
	e.HitAt(e.cfg.Now().Add(-time.Hour+time.Minute), key, 1)
	e.keys.Heat(key)
}

// A state that was taken by a clock two hours ahead heals, and so does one that another
// node took while it had such hits in quarantine. In the end both are what they would have been.
func TestStateFromAClockAhead(t *testing.T) {
	right := unix(1_700_000_000)
	now := right.Add(2 * time.Hour)
	cfg := Config{Partitions: 1, Retention: time.Hour, Gather: true, Now: func() time.Time { return now }}
	was := newTestEngine(t, cfg)
	was.HitAt(right.Add(90*time.Minute), "a", 1)
	was.HitAt(now, "a", 2)
	for s := range 600 {
		was.HitAt(now.Add(-time.Duration(s)*time.Second), "dense", 1)
	}
	state := stateOf(was)
	now = right
	for life := range 3 { // the later ones load what the one before had in quarantine
		e := newTestEngine(t, cfg)
		if err := e.LoadState(0, state, 0); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"a", "dense", "b"} {
			if err := e.HitN(key, 4); err != nil {
				t.Errorf("life %d: %s: %v", life, key, err)
			}
		}
		got, _ := e.Count("dense", 5*time.Minute)
		checkBounds(t, "dense", got, uint64(4*(life+1)), true)
		got, _ = e.Count(AllKeys, 5*time.Minute)
		checkBounds(t, "all", got, uint64(12*(life+1)), true)
		got, err := e.CountIn(replication.PartitionSet{1}, now, AllKeys, 5*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		checkBounds(t, "all of a partition", got, uint64(12*life), true)
		if s := e.Stats(); s.Quarantined == 0 || s.Hits != 603+uint64(12*(life+1)) {
			t.Errorf("life %d: %+v", life, s)
		}
		state = stateOf(e)
	}
	now = right.Add(2 * time.Hour)
	e := newTestEngine(t, cfg)
	if err := e.LoadState(0, state, 0); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]uint64{"a": 2, "dense": 300, AllKeys: 302} {
		got, _ := e.Count(key, 5*time.Minute)
		checkBounds(t, "when its time has come: "+key, got, want, true)
	}
}

func stateOf(e *Engine) []byte {
	var c replication.Cut
	e.Cut(0, &c, true)
	return c.State
}

// Engines whose clocks differ apply the same hits in other orders, are snapshotted and
// begin again: once all seconds have come they are byte for byte the same.
func TestOrderAndClocksDoNotMatter(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 10))
		begin := unix(1_700_000_000)
		keys := []string{"a", "b", "c"}
		var all []replication.Delta
		for range 50 + random.IntN(600) {
			d := replication.Delta{Key: keys[random.IntN(3)], At: begin.Unix() + random.Int64N(600), N: 1 + random.Uint64N(9)}
			if random.IntN(10) == 0 {
				d.At += random.Int64N(5000)
			}
			all = append(all, d)
		}
		var want [3][]byte
		for node := range 3 {
			offset := time.Duration(random.Int64N(7200)-3600) * time.Second
			now := begin.Add(offset)
			cfg := Config{Partitions: 1, Retention: 3 * time.Hour, Gather: true, Now: func() time.Time { return now }}
			e := newTestEngine(t, cfg)
			for i, at := range random.Perm(len(all)) {
				e.Apply(0, all[at:at+1], nil)
				now = now.Add(time.Duration(random.Int64N(3)) * time.Second)
				if i%200 == 199 {
					state := stateOf(e)
					e = newTestEngine(t, cfg)
					if err := e.LoadState(0, state, 0); err != nil {
						t.Fatal(err)
					}
				}
			}
			now = begin.Add(100 * time.Minute)
			e.lookAhead()
			settled := map[string][]byte{}
			ahead := e.keys.Settled(0, func(key string, w *window.Window) { settled[key], _ = w.MarshalBinary() })
			if ahead > 0 {
				t.Fatalf("seed %d: something is still ahead", seed)
			}
			for i, key := range keys {
				got := settled[key]
				if node == 0 {
					want[i] = got
				} else if string(got) != string(want[i]) {
					t.Errorf("seed %d: node %d has another window of %s", seed, node, key)
				}
			}
		}
	}
}

// What is ahead takes memory like any key, and leaves when that is full.
func TestAheadIsBounded(t *testing.T) {
	now := unix(1_700_000_000)
	e := newTestEngine(t, Config{Partitions: 1, Memory: 64 << 10, Now: func() time.Time { return now }})
	for i := range 5000 {
		e.Apply(0, []replication.Delta{{Key: fmt.Sprint("k", i), At: now.Unix() + year, N: 1}}, nil)
	}
	s := e.Stats()
	if s.Bytes > 80<<10 || s.EvictedKeys == 0 || s.Hits != 5000 {
		t.Errorf("%+v", s)
	}
	e.Apply(0, []replication.Delta{{Key: "gone", At: now.Unix() + year, N: 1}}, nil)
	if had, err := e.Delete("gone"); !had || err != nil {
		t.Errorf("a key that is ahead alone is deleted: %v, %v", had, err)
	}
}

// A counter goes on when the clock runs back, and has all hits when it is there again.
func TestCounterClockRunsBack(t *testing.T) {
	c, err := NewCounter(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	c.HitN(7)
	wall := time.Now().Add(-2 * time.Hour)
	c.wall.Source = func() time.Time { return wall }
	c.HitN(3)
	got, _ := c.Count(5 * time.Minute)
	checkBounds(t, "two hours back", got, 3, true)
	wall = wall.Add(2*time.Hour + time.Minute)
	c.HitN(2)
	got, _ = c.Count(5 * time.Minute)
	checkBounds(t, "forth again", got, 9, true)
}

// Bytes that are no state are refused, and those of one load into an engine that answers.
func FuzzLoadState(f *testing.F) {
	now := unix(1_700_000_000)
	cfg := Config{Partitions: 1, Retention: time.Hour, Gather: true, Now: func() time.Time { return now }}
	e, err := New(cfg)
	if err != nil {
		f.Fatal(err)
	}
	e.HitN("a", 3)
	e.Apply(0, []replication.Delta{{Key: "b", At: now.Unix() + 7200, N: 2}, {Key: "b", At: now.Unix() + 20, N: 2}}, nil)
	state := stateOf(e)
	e.Close()
	f.Add(state[:len(state)-4])
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if err := e.LoadState(0, wire.Seal(body, 0), 0); err != nil {
			return
		}
		if err := e.HitN("a", 1); err != nil {
			t.Fatal(err)
		}
		if got, _ := e.Count("a", time.Second); got.Lower < 1 {
			t.Fatalf("%+v", got)
		}
		stateOf(e)
	})
}
