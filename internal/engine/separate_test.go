package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
)

// Decisions of limits are counted separately: in memory, in cuts, states and what is
// applied, also where partitions are held in part.
func TestKeysCountedSeparately(t *testing.T) {
	cfg := Config{Partitions: 4, Gather: true, Clock: EventClock}
	e := newTestEngine(t, cfg)
	for key, n := range map[string]uint64{"limit:login:allowed": 7, "limit:login:denied": 8, "limits": 1, "a": 2} {
		if err := e.HitN(key, n); err != nil {
			t.Fatal(err)
		}
	}
	other, loaded := newTestEngine(t, cfg), newTestEngine(t, cfg)
	for partition := range cfg.Partitions {
		var c replication.Cut
		e.Cut(partition, &c, true)
		other.Apply(partition, c.Deltas, nil)
		if err := loaded.LoadState(partition, c.State, 0); err != nil {
			t.Fatal(err)
		}
	}
	for name, e := range map[string]*Engine{"first": e, "follower": other, "restarted": loaded} {
		for key, n := range map[string]uint64{AllKeys: 3, "limit:login:allowed": 7, "limit:login:denied": 8, "a": 2} {
			if got, err := e.Count(key, time.Minute); err != nil || got.Estimate != n || !got.Exact() {
				t.Errorf("%s: %s: %v (%v), want %d", name, key, got, err, n)
			}
		}
		if got, err := e.CountIn(e.HeldPartitions(), e.Now(), AllKeys, time.Minute); err != nil || got.Estimate != 3 {
			t.Errorf("%s: all hits, added up by partition: %v (%v)", name, got, err)
		}
		if s := e.Stats(); s.Hits != 3 {
			t.Errorf("%s: %d hits", name, s.Hits)
		}
		for prefix, want := range map[string][]string{
			"": {"a", "limits"}, "limit": {"limits"}, "limit:": {"limit:login:allowed", "limit:login:denied"}, "limit:login:d": {"limit:login:denied"},
		} {
			keys, err := e.Keys(prefix, "", 10)
			if err != nil || !slices.Equal(keys, want) {
				t.Errorf("%s: keys with %q: %q (%v)", name, prefix, keys, err)
			}
			top, err := e.Top(e.Now(), time.Minute, 10, prefix)
			if err != nil || len(top) != len(want) {
				t.Errorf("%s: top with %q: %v (%v)", name, prefix, top, err)
			}
		}
	}
}
