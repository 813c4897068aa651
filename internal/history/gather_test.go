package history

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
)

// What is gathered is what a map of keys and slots has, with keys that are removed and come again.
func TestGather(t *testing.T) {
	t.Parallel()
	type place struct {
		key  string
		slot int64
	}
	r := rand.New(rand.NewPCG(1, 2))
	g := newGather(time.Hour)
	for round := range 50 {
		g.again()
		var hits []replication.Delta
		want, removed := map[place]uint64{}, map[string]bool{}
		for range r.IntN(2000) {
			key, at, n := fmt.Sprint("k", r.IntN(40+20*round)), r.Int64N(1<<r.IntN(18)), 1+r.Uint64()>>(1+r.IntN(63))
			if r.IntN(4) == 0 {
				key = engine.SeparatePrefix + key
			}
			if r.IntN(50) == 0 {
				n = 0
				removed[key] = true
				for at := range want {
					if at.key == key {
						delete(want, at)
					}
				}
			}
			hits = append(hits, replication.Delta{Key: key, At: at, N: n})
			if n > 0 {
				slot := at - at%3600
				want[place{key, slot}] = sum(want[place{key, slot}], n)
				if key[0] == 'k' {
					want[place{engine.AllKeys, slot}] = sum(want[place{engine.AllKeys, slot}], n)
				}
			}
		}
		g.addHits(hits)
		b := g.batch()
		if len(b.Rows) != len(want) || len(b.Remove) != len(removed) {
			t.Fatalf("%d rows and %d removals, want %d and %d", len(b.Rows), len(b.Remove), len(want), len(removed))
		}
		for _, row := range b.Rows {
			if n := want[place{row.Key, row.Slot}]; n == 0 || n != row.N {
				t.Fatalf("%s at %d: %d, want %d", row.Key, row.Slot, row.N, n)
			}
		}
		for _, key := range b.Remove {
			if !removed[key] {
				t.Fatalf("%s is removed", key)
			}
		}
	}
}

// BenchmarkGather is how many rows are written where a writer catches up on hits of a million keys after Zipf's law, and the
// memory that is in use as they are: flushes of 500,000 hits.
func BenchmarkGather(b *testing.B) {
	const hits, flushHits = 10_000_000, 500_000
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 1)), 1.1, 1, 1_000_000-1)
	var flushes [hits / flushHits]map[uint64]uint64
	for i := range flushes {
		flushes[i] = map[uint64]uint64{}
		for range flushHits {
			flushes[i][zipf.Uint64()]++
		}
	}
	inUse := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for b.Loop() {
		rows, transactions, most, before := 0, 0, uint64(0), inUse()
		g := newGather(time.Hour)
		for i, flush := range flushes {
			for key, n := range flush {
				g.addHits([]replication.Delta{{Key: fmt.Sprintf("user:%07d", key), At: 1_700_000_000, N: n}})
			}
			if g.full() || i == len(flushes)-1 {
				most = max(most, inUse()-before)
				rows, transactions = rows+len(g.batch().Rows), transactions+1
				g = newGather(time.Hour)
			}
		}
		b.ReportMetric(float64(rows), "rows")
		b.ReportMetric(float64(transactions), "transactions")
		b.ReportMetric(float64(most)/(1<<20), "MiB-in-use")
	}
}

// Long keys are written before there are maxRows of them, those that were removed too.
func TestGatherOfLongKeys(t *testing.T) {
	t.Parallel()
	g, n := newGather(time.Hour), 0
	for ; !g.full(); n++ {
		key := fmt.Sprintf("%0512d", n/2)
		g.addHits([]replication.Delta{{Key: key, At: 7200, N: uint64(n+1) % 2}}) // hit, and then removed
	}
	if want := maxText / 512; n != want {
		t.Errorf("full after %d hits and removals, want %d", n, want)
	}
}
