package engine

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

// A flood of new keys keeps the budget; the keys in use stay; what was evicted
// is counted and remains in the upper bounds.
func TestBudgetUnderAFlood(t *testing.T) {
	e := newTestEngine(t, Config{Clock: EventClock, Memory: 2 << 20, Partitions: 8})
	at := int64(1_000_000)
	const flood = 200_000
	for i := range int64(flood) {
		at += i % 2
		e.HitAt(unix(at), fmt.Sprint("flood:", i), 1)
		if i%50 == 0 {
			e.HitAt(unix(at), "in use", 1)
		}
		if got := e.Stats().Bytes; got > 2<<20 {
			t.Fatalf("after %d keys: %d bytes, budget %d", i, got, 2<<20)
		}
	}
	s := e.Stats()
	if s.EvictedKeys == 0 || s.EvictedHits != s.EvictedKeys || int(s.EvictedKeys)+s.Keys != flood+1 {
		t.Errorf("%+v", s)
	}
	got, _ := e.CountAt(unix(at), "in use", 1_000_000*time.Second)
	if got.Lower != flood/50 {
		t.Errorf("in use: %+v, want lower %d", got, flood/50)
	}
	all, _ := e.Count(AllKeys, 1_000_000*time.Second)
	if truth := uint64(flood + flood/50); all.Lower > truth || all.Upper < truth {
		t.Errorf("all: %+v, want %d", all, truth)
	}
	for i := range flood {
		key := fmt.Sprint("flood:", i)
		got, _ := e.Count(key, 1_000_000*time.Second)
		if got.Lower > 1 || got.Upper < 1 {
			t.Fatalf("%s: %+v, truth 1", key, got)
		}
	}
	// Windows that begin after the evicted hits are exact again.
	e.HitAt(unix(at+10_000), "flood:1", 1)
	got, _ = e.Count("flood:1", 5*time.Minute)
	checkBounds(t, "flood:1", got, 1, true)
}

// Keys that grow, not only new ones, keep the budget.
func TestBudgetWithGrowingKeys(t *testing.T) {
	e := newTestEngine(t, Config{Clock: EventClock, Memory: 1 << 20, Partitions: 16})
	r := rand.New(rand.NewPCG(1, 1))
	for i := range int64(300_000) {
		e.HitAt(unix(1_000_000+i), fmt.Sprint("key:", r.IntN(300)), 1)
		if got := e.Stats().Bytes; got > 1<<20 {
			t.Fatalf("%d bytes, budget %d", got, 1<<20)
		}
	}
	if s := e.Stats(); s.EvictedKeys == 0 {
		t.Errorf("%+v", s)
	}
}

// The account of bytes is what the heap grows by, within a fifth.
func TestBytesAreTrue(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for name, hits := range map[string]int64{"sparse": 10, "dense": 1000} {
		e := newTestEngine(t, Config{Clock: EventClock})
		before, began := heap(), e.Stats().Bytes
		keys := 200_000 / hits
		for i := range hits {
			for k := range keys {
				e.HitAt(unix(1_000_000+i*8640), fmt.Sprintf("user:%015d", k), 1)
			}
		}
		grown, account := heap()-before, e.Stats().Bytes-began
		t.Logf("%s: %d bytes per key on the heap, %d by account", name, grown/keys, account/keys)
		if diff := grown - account; diff > account/5 || -diff > account/5 {
			t.Errorf("%s: the heap grew by %d, the account says %d", name, grown, account)
		}
		runtime.KeepAlive(e)
	}
}

// Deleting all keys brings the account back to where it began.
func TestBytesComeBack(t *testing.T) {
	e := newTestEngine(t, Config{Clock: EventClock})
	empty := e.Stats().Bytes
	for i := range int64(50_000) {
		e.HitAt(unix(1_000_000+i/10), fmt.Sprint("key:", i%5000), 1)
	}
	for i := range 5000 {
		e.Delete(fmt.Sprint("key:", i))
	}
	if got := e.Stats().Bytes; got != empty || e.Stats().Keys != 0 {
		t.Errorf("%d bytes and %d keys after deleting all, began with %d", got, e.Stats().Keys, empty)
	}
}
