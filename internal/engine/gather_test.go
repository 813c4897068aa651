package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/window"
)

// windowsOf is every key's window, encoded; the engine's cells are empty.
func windowsOf(t *testing.T, e *Engine) map[string]string {
	t.Helper()
	windows := map[string]string{}
	for i := range e.cfg.Partitions {
		e.keys.Settled(i, func(key string, w *window.Window) {
			b, err := w.MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			if key == AllKeys {
				key = fmt.Sprint("total of ", i)
			}
			windows[key] = string(b)
		})
	}
	return windows
}

func sameWindows(t *testing.T, got, want map[string]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d windows, want %d", len(got), len(want))
	}
	for key, w := range want {
		if got[key] != w {
			t.Fatalf("%s: another window", key)
		}
	}
}

// The cuts of one engine, applied to another one from any state on, make the
// same windows: nothing is missed, nothing comes twice.
func TestCutsAndStatesMakeTheSameEngine(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		cfg := Config{Clock: EventClock, Partitions: 4, Gather: true}
		source := newTestEngine(t, cfg)
		copies := []*Engine{newTestEngine(t, cfg)} // the first applies all, others begin with a state
		now := int64(1_000_000)
		for step := range 6000 {
			now += r.Int64N(2)
			key := fmt.Sprint("key:", int(r.ExpFloat64()*20))
			switch r.IntN(100) {
			case 0:
				source.Delete(key)
			case 1:
				source.keys.Heat(key)
			case 2:
				source.keys.CoolDown()
			case 3, 4:
				withState := step > 3000 && len(copies) < 3
				var fresh *Engine
				if withState {
					fresh = newTestEngine(t, cfg)
				}
				cutAll(t, source, copies, fresh)
				if withState {
					copies = append(copies, fresh)
				}
			default:
				if _, err := source.HitAt(unix(now-r.Int64N(50)*r.Int64N(2)), key, 1+r.Uint64N(1<<29)*r.Uint64N(2)); err != nil {
					t.Fatal(err)
				}
			}
		}
		cutAll(t, source, copies, nil)
		want := windowsOf(t, source)
		for _, c := range copies {
			sameWindows(t, windowsOf(t, c), want)
			a, _ := source.Count(AllKeys, MaxWindow)
			b, _ := c.Count(AllKeys, MaxWindow)
			if a != b || !c.Now().Equal(source.Now()) {
				t.Errorf("all: %+v at %v, want %+v at %v", b, c.Now(), a, source.Now())
			}
		}
		if n := source.Stats().Waiting; n != 0 {
			t.Errorf("%d deltas wait after the last cut", n)
		}
	}
}

func cutAll(t *testing.T, source *Engine, copies []*Engine, fresh *Engine) {
	t.Helper()
	var c replication.Cut
	for i := range source.cfg.Partitions {
		source.Cut(i, &c, fresh != nil)
		for _, e := range copies {
			e.Apply(i, c.Deltas, nil)
		}
		if fresh != nil {
			if err := fresh.LoadState(i, c.State, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Cuts that run while all cores hit: every hit is in exactly one of them.
func TestCutsWhileHitsCome(t *testing.T) {
	e := newTestEngine(t, Config{Clock: EventClock, Partitions: 2, Gather: true})
	const goroutines, hits = 6, 30_000
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 0))
			for i := range int64(hits) {
				e.HitAt(unix(1_000_000+i/3000), fmt.Sprint("key:", r.IntN(4)), 1)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	var c replication.Cut
	var sum uint64
	for last := false; !last; {
		select {
		case <-done:
			last = true
		default:
		}
		for i := range e.cfg.Partitions {
			e.Cut(i, &c, false)
			for _, d := range c.Deltas {
				sum += d.N
			}
		}
	}
	if sum != goroutines*hits {
		t.Errorf("the cuts have %d hits, want %d", sum, goroutines*hits)
	}
}

// A key that was hit since the cut before is expected to be hit again, and counts with its bytes
// until a cut finds that it was not: hits that nobody counted as waiting have space in the journal.
func TestCutExpectsMoreHits(t *testing.T) {
	e := newTestEngine(t, Config{Clock: EventClock, Gather: true, Partitions: 1})
	hit := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			if _, err := e.HitAt(unix(1_000_000), key, 2); err != nil {
				t.Fatal(err)
			}
		}
	}
	cut := func(want ...string) {
		t.Helper()
		var c replication.Cut
		e.Cut(0, &c, false)
		var got []string
		for _, d := range c.Deltas {
			if d.At != 1_000_000 || d.N != 2 {
				t.Errorf("%+v", d)
			}
			got = append(got, d.Key)
		}
		if n := e.Stats().Waiting; !slices.Equal(got, want) || n != 0 {
			t.Fatalf("a cut of %q, %d wait; want %q", got, n, want)
		}
	}
	hit("a", "b")
	both := e.Stats().WaitingBytes
	cut("a", "b")
	if n := e.Stats().WaitingBytes; n != both {
		t.Errorf("two keys that may be hit again count with %d bytes, want %d", n, both)
	}
	e.Keyspace().BoundWaiting(both-1, "no space")
	wantCode(t, e.Hit("a"), api.CodeOverloaded)
	e.Keyspace().BoundWaiting(both, "")
	hit("a")
	cut("a")
	if n := e.Stats().WaitingBytes; n != both/2 {
		t.Errorf("one key that may be hit again counts with %d bytes, want %d", n, both/2)
	}
	cut()
	if n := e.Stats().WaitingBytes; n != 0 {
		t.Errorf("%d bytes of keys that are not hit any more", n)
	}
	hit("a")
	cut("a")
}

// When nobody cuts, the buffer fills up and hits are refused, not lost.
func TestRefusesWhenNobodyCuts(t *testing.T) {
	e := newTestEngine(t, Config{Clock: EventClock, Gather: true, MaxWaiting: 1000})
	var counted uint64
	var err error
	for i := range int64(100_000) {
		if _, err = e.HitAt(unix(1_000_000+i), "a", 1); err != nil {
			break
		}
		counted++
	}
	wantCode(t, err, api.CodeOverloaded)
	var c replication.Cut
	var sum uint64
	for i := range e.cfg.Partitions {
		e.Cut(i, &c, false)
		for _, d := range c.Deltas {
			sum += d.N
		}
	}
	if sum != counted {
		t.Errorf("%d hits counted, %d cut", counted, sum)
	}
	if err := e.Hit("a"); err != nil {
		t.Errorf("after the cut: %v", err)
	}
}

// Evicted hits stay in the upper bounds across a restart.
func TestStateKeepsEvictedHits(t *testing.T) {
	cfg := Config{Clock: EventClock, Gather: true, Memory: 1 << 20, Partitions: 16}
	e, restarted := newTestEngine(t, cfg), newTestEngine(t, cfg)
	for i := range int64(50_000) {
		e.HitAt(unix(1_000_000+i/100), fmt.Sprint("flood:", i), 1)
	}
	cutAll(t, e, nil, restarted)
	for i := range 50_000 {
		got, _ := restarted.Count(fmt.Sprint("flood:", i), MaxWindow)
		if got.Lower > 1 || got.Upper < 1 {
			t.Fatalf("flood:%d: %+v, truth 1", i, got)
		}
	}
}

func TestLoadStateRefusesDamage(t *testing.T) {
	cfg := Config{Clock: EventClock, Partitions: 2, Gather: true}
	e := newTestEngine(t, cfg)
	for i := range int64(1000) {
		e.HitAt(unix(1_000_000+i), fmt.Sprint("key:", i%20), 1)
	}
	var c replication.Cut
	e.Cut(1, &c, true)
	target := newTestEngine(t, cfg)
	for bit := range 8 * len(c.State) {
		damaged := slices.Clone(c.State)
		damaged[bit/8] ^= 1 << (bit % 8)
		if err := target.LoadState(1, damaged, 0); err == nil {
			t.Fatalf("took a state with bit %d flipped", bit)
		}
	}
	for cut := range len(c.State) {
		if err := target.LoadState(1, c.State[:cut], 0); err == nil {
			t.Fatalf("took a state cut to %d bytes", cut)
		}
	}
	if err := target.LoadState(0, c.State, 0); !errors.Is(err, replication.ErrDamagedState) {
		t.Errorf("partition 1 as 0: %v", err)
	}
	if s := target.Stats(); s.Keys != 0 || s.Hits != 0 {
		t.Errorf("the refused states changed something: %+v", s)
	}
	for _, other := range []Config{{Partitions: 4, Gather: true}, {Partitions: 2, Retention: MaxWindow, Gather: true}} {
		if err := newTestEngine(t, other).LoadState(1, c.State, 0); err == nil || errors.Is(err, replication.ErrDamagedState) {
			t.Errorf("%+v: %v", other, err)
		}
	}
	if err := target.LoadState(1, c.State, 0); err != nil {
		t.Fatal(err)
	}
	if err := target.LoadState(1, c.State, 0); err == nil {
		t.Error("took a state twice")
	}
}

// Late hits settle one by one, but a cut grows with keys and seconds only, and
// nothing moves across a removal.
func TestCutAddsUpLateHits(t *testing.T) {
	e := newTestEngine(t, Config{Clock: EventClock, Partitions: 1, Gather: true})
	e.HitAt(unix(1000), "a", 1)
	for i := range int64(100_000) {
		e.HitAt(unix(990+i%3), "a", 1)
		if i == 50_000 {
			e.Delete("a")
			e.HitAt(unix(1000), "a", 1)
		}
	}
	var c replication.Cut
	e.Cut(0, &c, false)
	if len(c.Deltas) > 2*2048 {
		t.Errorf("%d deltas for one key and four seconds", len(c.Deltas))
	}
	other := newTestEngine(t, Config{Clock: EventClock, Partitions: 1, Gather: true})
	other.Apply(0, c.Deltas, nil)
	a, _ := e.Count("a", MaxWindow)
	b, _ := other.Count("a", MaxWindow)
	if a != b || !a.Exact() {
		t.Errorf("%+v, applied elsewhere %+v", a, b)
	}
}
