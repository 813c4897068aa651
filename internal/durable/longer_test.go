package durable

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/backup"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// A longer retention brings no hits back: windows that reach back further than was kept
// have bounds that allow for it, of * as of a key, also after a restart, until the new
// retention has passed.
func TestALongerRetentionIsHonestAboutAllKeys(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	eng := func(partitions int, retention time.Duration) *engine.Engine {
		e, err := engine.New(engine.Config{Partitions: partitions, Retention: retention, Gather: true, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		return e
	}
	states := func(e *engine.Engine) (list [][]byte) {
		for partition := range e.Config().Partitions {
			var cut replication.Cut
			e.Cut(partition, &cut, true)
			list = append(list, cut.State)
		}
		return list
	}
	pours := func(from *engine.Engine, partitions int, retention time.Duration) *engine.Engine {
		to := eng(partitions, retention)
		h := replica.NewHolding(to)
		for _, state := range states(from) {
			c, err := replication.ReadContent(state)
			if err != nil {
				t.Fatal(err)
			}
			if err := backup.Pour(c, to, func(p record.Batch) error {
				b := record.Batch{Partition: p.Partition, Kind: p.Kind, Entries: p.Entries}
				if !b.CheckRestored() {
					t.Error("a batch of the content is refused")
				}
				return h.Count(b, false, false)
			}); err != nil {
				t.Fatal(err)
			}
		}
		return to
	}
	keys := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	short, truth := eng(4, 10*time.Minute), uint64(0)
	for range 55 * 12 {
		for _, key := range keys {
			if err := short.HitN(key, 3); err != nil {
				t.Fatal(err)
			}
			truth += 3
		}
		now = now.Add(5 * time.Second)
	}
	if got, err := short.Count(engine.AllKeys, 10*time.Minute); err != nil || got.Upper > truth/4 {
		t.Fatalf("in its retention: %v, %v", got, err)
	}
	within := func(e *engine.Engine, what string, key string, truth uint64) {
		t.Helper()
		got, err := e.Count(key, time.Hour)
		if err != nil || got.Lower > truth || got.Upper < truth {
			t.Errorf("%s: %s in an hour: %v, %v; %d are true", what, key, got, err, truth)
		}
	}
	for _, partitions := range []int{1, 4, 16} {
		long := pours(short, partitions, 2*time.Hour)
		within(long, "poured", engine.AllKeys, truth)
		within(long, "poured", "a", truth/8)
		if got, err := long.Count(engine.AllKeys, time.Hour); err != nil || got.Lower == truth {
			t.Fatalf("nothing has left: %v, %v", got, err)
		}
		again := pours(long, 4, 3*time.Hour)
		within(again, "poured twice", engine.AllKeys, truth)
		loaded := eng(partitions, 2*time.Hour)
		for partition, state := range states(long) {
			if err := loaded.LoadState(partition, state, 0); err != nil {
				t.Fatal(err)
			}
		}
		within(loaded, "after a restart", engine.AllKeys, truth)
		within(loaded, "after a restart", "a", truth/8)
		in := replication.NewPartitionSet(partitions)
		for partition := range partitions {
			in.Add(partition)
		}
		got, err := loaded.CountIn(in, now, engine.AllKeys, time.Hour)
		if err != nil || got.Lower > truth || got.Upper < truth {
			t.Errorf("by partitions: %v, %v; %d are true", got, err, truth)
		}
		if got, err := loaded.Count(engine.AllKeys, 5*time.Minute); err != nil || !got.Exact() {
			t.Errorf("what was kept is in doubt: %v, %v", got, err)
		}
		func(before time.Time) {
			defer func() { now = before }()
			now = now.Add(2 * time.Hour)
			if err := loaded.Hit("a"); err != nil {
				t.Fatal(err)
			}
			if got, err := loaded.Count(engine.AllKeys, 2*time.Hour); err != nil || !got.Exact() {
				t.Errorf("after the new retention: %v, %v", got, err)
			}
		}(now)
	}
}
