package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/window"
)

func newTestEngine(t *testing.T, cfg Config) *Engine {
	t.Helper()
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// Random hits on many keys, in and out of order, against a list per key.
func TestEngineAgainstNaive(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 0))
		e := newTestEngine(t, Config{Clock: EventClock, Partitions: 1 << r.IntN(5)})
		lists := map[string]*naive{AllKeys: {}}
		now := int64(1_000_000)
		for range 20_000 {
			now += r.Int64N(20) * r.Int64N(2)
			key, at, n := fmt.Sprintf("key:%d", int(r.ExpFloat64()*20)), now-r.Int64N(100)*r.Int64N(2), 1+r.Uint64N(3)
			if r.IntN(1000) == 0 {
				at -= r.Int64N(10 * 86400)
			}
			if _, err := e.HitAt(unix(at), key, n); err != nil {
				t.Fatal(err)
			}
			if lists[key] == nil {
				lists[key] = new(naive)
			}
			lists[key].add(at, n)
			lists[AllKeys].add(at, n)
		}
		now = e.Now().Unix()
		for key, list := range lists {
			for _, seconds := range []int64{1, 60, 300, 3600, 86400, 1_000_000, 1_000_000_000} {
				w := time.Duration(seconds) * time.Second
				got, err := e.Count(key, w)
				if err != nil {
					t.Fatal(err)
				}
				checkBounds(t, key, got, list.count(now, seconds), seconds <= 300)
				got, _ = e.CountAt(unix(now-seconds/3), key, w)
				checkBounds(t, key, got, list.count(now-seconds/3, seconds), false)
			}
		}
		if s := e.Stats(); s.Keys != len(lists)-1 || s.Hits != lists[AllKeys].count(now, now+1) || s.TooLate != 0 {
			t.Errorf("seed %d: %+v", seed, s)
		}
	}
}

// Hot and cold keys, deletes and reads at once: each hit is in AllKeys once.
func TestEngineConcurrent(t *testing.T) {
	e := newTestEngine(t, Config{Clock: EventClock, Partitions: 4})
	const goroutines, hits = 8, 20_000
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 0))
			for i := range int64(hits) {
				key := "hot"
				if r.IntN(2) == 0 {
					key = fmt.Sprint("cold:", r.IntN(2000))
				}
				if _, err := e.HitAt(unix(1_000_000+i/1000), key, 1); err != nil {
					t.Error(err)
					return
				}
				switch r.IntN(2000) {
				case 0:
					e.Delete(fmt.Sprint("cold:", r.IntN(2000)))
				case 1:
					e.Top(e.Now(), time.Minute, 5, "")
				case 2:
					e.keys.CoolDown()
				case 3:
					e.Keys("cold:1", "", 10)
				}
			}
		})
	}
	wg.Wait()
	all, _ := e.Count(AllKeys, 5*time.Minute)
	checkBounds(t, "all", all, goroutines*hits, true)
}

// Hits on one key from every core, with the key heated and cooled meanwhile.
func TestHotKeyLosesNothing(t *testing.T) {
	e := newTestEngine(t, Config{Clock: EventClock})
	const goroutines, hits = 8, 50_000
	stop := make(chan struct{})
	var wg, disturb sync.WaitGroup
	disturb.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			e.keys.Heat("hot")
			e.Count("hot", time.Minute)
			e.keys.CoolDown()
		}
	})
	for g := range int64(goroutines) {
		wg.Go(func() {
			for i := range int64(hits) {
				e.HitAt(unix(1_000_000+i/5000-g%2), "hot", 1)
			}
		})
	}
	wg.Wait()
	close(stop)
	disturb.Wait()
	got, _ := e.Count("hot", 5*time.Minute)
	checkBounds(t, "hot", got, goroutines*hits, true)
}

// A deleted key starts over: hits that race with the delete are in the old life
// or the new one, and none is lost from AllKeys.
func TestDelete(t *testing.T) {
	e := newTestEngine(t, Config{})
	e.HitN("a", 5)
	if existed, err := e.Delete("a"); !existed || err != nil {
		t.Errorf("Delete: %v, %v", existed, err)
	}
	if existed, _ := e.Delete("a"); existed {
		t.Error("deleted twice")
	}
	e.Hit("a")
	got, _ := e.Count("a", time.Minute)
	checkBounds(t, "a", got, 1, true)
	all, _ := e.Count(AllKeys, time.Minute)
	checkBounds(t, "all", all, 6, true)
}

func TestEngineRefuses(t *testing.T) {
	now := unix(1_700_000_000)
	e := newTestEngine(t, Config{Now: func() time.Time { return now }})
	long := make([]byte, MaxKeyBytes+1)
	for _, s := range []struct {
		key  string
		n    uint64
		at   time.Time
		code api.Code
	}{
		{"", 1, now, api.CodeInvalidKey},
		{string(long), 1, now, api.CodeInvalidKey},
		{AllKeys, 1, now, api.CodeReservedKey},
		{"a", 0, now, api.CodeInvalidCount},
		{"a", 1, now.Add(6 * time.Second), api.CodeTooFarAhead},
		{"a", 1, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), api.CodeTooFarAhead},
		{"a", 1, unix(-5), api.CodeInvalidTime},
		{"a", 1, unix(now.UnixMilli()), api.CodeInvalidTime},
	} {
		_, err := e.HitAt(s.at, s.key, s.n)
		wantCode(t, err, s.code)
	}
	if s := e.Stats(); s.Hits != 0 || s.Keys != 0 || s.TooFarAhead != 2 {
		t.Errorf("the refused hits changed something: %+v", s)
	}
	if outcome, err := e.HitAt(now.Add(-31*24*time.Hour), "a", 1); outcome != TooLate || err != nil {
		t.Errorf("a hit older than the retention: %d, %v", outcome, err)
	}
	if outcome, err := e.HitAt(now.Add(5*time.Second), "a", 1); outcome != Counted || err != nil {
		t.Errorf("a hit within MaxAhead: %d, %v", outcome, err)
	}
	if s := e.Stats(); s.Hits != 1 || s.Keys != 1 || s.TooLate != 1 {
		t.Errorf("%+v", s)
	}
	_, err := e.Count("a", 0)
	wantCode(t, err, api.CodeInvalidWindow)
	_, err = e.Count("", time.Second)
	wantCode(t, err, api.CodeInvalidKey)
	_, err = e.Delete(AllKeys)
	wantCode(t, err, api.CodeReservedKey)
	e.Close()
	wantCode(t, e.Hit("a"), api.CodeClosed)
}

// The event clock is not moved by a hit in the year 2100 either.
func TestEventClockCannotBePoisoned(t *testing.T) {
	e := newTestEngine(t, Config{Clock: EventClock})
	if !e.Now().IsZero() {
		t.Errorf("Now before the first hit: %v", e.Now())
	}
	e.HitAt(unix(1000), "a", 1)
	_, err := e.HitAt(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), "a", 1)
	wantCode(t, err, api.CodeTooFarAhead)
	if got := e.Now(); !got.Equal(unix(1000)) {
		t.Errorf("Now = %v", got)
	}
	got, _ := e.Count("a", 5*time.Minute)
	checkBounds(t, "a", got, 1, true)
}

// A wall clock that jumps back loses nothing, and the hits are where it says.
func TestClockRunsBack(t *testing.T) {
	now := unix(1_700_000_000)
	e := newTestEngine(t, Config{Now: func() time.Time { return now }})
	e.HitN("a", 3)
	now = now.Add(-time.Hour)
	e.HitN("a", 4)
	got, _ := e.Count("a", time.Minute)
	checkBounds(t, "an hour back", got, 4, true)
	now = now.Add(time.Hour)
	got, _ = e.Count("a", 2*time.Hour)
	checkBounds(t, "forth again", got, 7, true)
}

func TestConfigNamesTheField(t *testing.T) {
	for field, cfg := range map[string]Config{
		"Partitions": {Partitions: 3},
		"Retention":  {Retention: time.Millisecond},
		"Memory":     {Memory: 1000},
		"Clock":      {Clock: 7},
		"MaxAhead":   {MaxAhead: 31 * 24 * time.Hour},
	} {
		_, err := New(cfg)
		wantCode(t, err, api.CodeInvalidConfig)
		if e := new(Error); !errors.As(err, &e) || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Idle keys leave when their retention is over; the janitor does it.
func TestIdleKeysLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := New(Config{Retention: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		for i := range 1000 {
			e.Hit(fmt.Sprint("idle:", i))
		}
		time.Sleep(50 * time.Minute)
		e.Hit("busy")
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if s := e.Stats(); s.Keys != 1 || s.ExpiredKeys != 1000 {
			t.Errorf("%+v", s)
		}
		got, _ := e.Count("idle:1", time.Hour)
		checkBounds(t, "idle", got, 0, true)
		got, _ = e.Count("idle:1", 2*time.Hour) // beyond the retention: Upper must still hold
		checkBounds(t, "idle", got, 1, false)
	})
}

// A hit too large for a live cell does not lose the hits that are in it.
func TestLargeHitKeepsTheCell(t *testing.T) {
	e := newTestEngine(t, Config{Clock: EventClock, Retention: time.Hour})
	e.HitAt(unix(10_000), "a", 5)
	e.HitAt(unix(20_000), "a", 1<<28)
	e.HitAt(unix(20_000), "a", 3)
	got, _ := e.Count("a", MaxWindow)
	checkBounds(t, "a", got, 8+1<<28, false)
	e.keys.Settled(e.keys.PartitionOf("a"), func(key string, w *window.Window) {
		if got := w.Total(); key == "a" && got != 5+1<<28 {
			t.Errorf("%d hits settled, want %d", got, 5+1<<28)
		}
	})
}

// Hits that wait in a live cell while others move time on by more than the
// retention are in AllKeys, live, restarted and replayed alike.
func TestCutOfOldCells(t *testing.T) {
	cfg := Config{Clock: EventClock, Retention: time.Hour, Partitions: 1, Gather: true}
	e, restarted, replayed := newTestEngine(t, cfg), newTestEngine(t, cfg), newTestEngine(t, cfg)
	e.HitAt(unix(10_000), "b", 1)
	e.HitAt(unix(6401), "a", 7)
	e.HitAt(unix(10_001), "b", 1)
	e.HitAt(unix(10_002), "b", 1)
	var c replication.Cut
	e.Cut(0, &c, true)
	if err := restarted.LoadState(0, c.State, 0); err != nil {
		t.Fatal(err)
	}
	replayed.Apply(0, c.Deltas, nil)
	for name, e := range map[string]*Engine{"live": e, "restarted": restarted, "replayed": replayed} {
		got, _ := e.Count(AllKeys, MaxWindow)
		checkBounds(t, name, got, 10, false)
		if hits := e.Stats().Hits; hits != 10 {
			t.Errorf("%s: %d hits, want 10", name, hits)
		}
	}
}

// Applying another node's hits keeps those in the live cell of the same key.
func TestApplyKeepsTheLiveCell(t *testing.T) {
	e := newTestEngine(t, Config{Clock: EventClock, Retention: time.Hour, Gather: true})
	e.HitAt(unix(10_000), "a", 7)
	e.Apply(e.keys.PartitionOf("a"), []replication.Delta{{Key: "a", At: 20_000, N: 1}}, nil)
	e.HitAt(unix(20_001), "a", 1)
	got, _ := e.Count("a", MaxWindow)
	checkBounds(t, "a", got, 9, false)
}

// Keys that were hot cool when nobody hits them any more.
func TestHotKeysCool(t *testing.T) {
	e := newTestEngine(t, Config{Clock: EventClock})
	e.HitAt(unix(1000), "a", 1)
	e.keys.Heat("a")
	if got := e.Stats().HotKeys; got != 1 {
		t.Fatalf("%d hot keys", got)
	}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() { e.HitAt(unix(1001), "a", 1) })
	}
	wg.Wait()
	e.HitAt(unix(2000), "b", 1)
	e.keys.CoolDown()
	if got := e.Stats().HotKeys; got != 0 {
		t.Errorf("%d hot keys after a quarter of an hour", got)
	}
	got, _ := e.Count("a", time.Hour)
	checkBounds(t, "a", got, 17, true)
}
