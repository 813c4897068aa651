package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/window"
)

// A partition that is taken with windows, removals and clears of its journal counts as
// one that applied them when they came, and keeps own hits that no cut has.
func TestHoldFollowsRestoredBackups(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 0))
		n, model := newHeldNode(t), newHeldNode(t)
		const partition = 2
		n.e.Release(partition)
		var keys []string
		for i := 0; len(keys) < 10; i++ {
			if key := fmt.Sprint("k", i); n.e.keys.PartitionOf(key) == partition {
				keys = append(keys, key)
			}
		}
		second := func() int64 { return 1_700_000_000 + r.Int64N(900) }
		var then []replication.Followed
		for range 30 {
			var f replication.Followed
			key := keys[r.IntN(len(keys))]
			switch r.IntN(8) {
			case 0:
				f.Clear = true
				if err := model.e.Keyspace().Clear(partition, nil, nil); err != nil {
					t.Fatal(err)
				}
			case 1, 2:
				w, _ := window.New(int64(model.e.cfg.Retention / time.Second))
				w.Add(second(), 1+r.Uint64N(5))
				f.Windows = []replication.KeyWindow{{Key: key, Window: w}, {Key: "", Window: w.Clone()}}
				if err := model.e.MergeWindows(partition, f.Windows); err != nil {
					t.Fatal(err)
				}
			case 3:
				f.Evicted = []replication.Evicted{{Place: r.IntN(replication.SketchPlaces), Hits: 3, Newest: second()}}
				model.e.MergeEvicted(partition, f.Evicted)
			case 4:
				f.Deltas = []replication.Delta{{Key: key}}
				model.e.Apply(partition, f.Deltas, nil)
			default:
				f.Deltas = []replication.Delta{{Key: key, At: second(), N: 2}}
				model.e.Apply(partition, f.Deltas, nil)
			}
			then = append(then, f)
		}
		for range 5 {
			key, at := keys[r.IntN(len(keys))], time.Unix(second(), 0)
			for _, e := range []*Engine{n.e, model.e} {
				if _, err := e.HitAt(at, key, 1); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := hold(n.e, partition, nil, then); err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			n.check(seed, model, key)
		}
		n.cut(partition, false)
		model.cut(partition, false)
		n.check(seed, model, AllKeys)
		if got, want := n.e.Stats(), model.e.Stats(); got.Keys != want.Keys {
			t.Fatalf("seed %d: %d keys, want %d", seed, got.Keys, want.Keys)
		}
	}
}
