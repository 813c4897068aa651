package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
)

// What sampling added is in doubt wherever its hits count: here, in cuts and states, at a follower, and where partitions are
// held in part.
func TestSampledHitsAreInDoubt(t *testing.T) {
	cfg := Config{Partitions: 4, Gather: true, Clock: EventClock}
	e := newTestEngine(t, cfg)
	now := time.Unix(1_769_860_800, 0)
	for range 2 {
		if outcome, err := e.HitSampled(now, "a", 10, 9); err != nil || outcome != Counted {
			t.Fatal(outcome, err)
		}
	}
	for key, n := range map[string]uint64{"a": 3, "b": 7} {
		if _, err := e.HitAt(now, key, n); err != nil {
			t.Fatal(err)
		}
	}
	later := now.Add(10 * time.Minute)
	if _, err := e.HitAt(later, "a", 4); err != nil {
		t.Fatal(err)
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
	want := func(name, key string, got Count, err error, text string) {
		t.Helper()
		if err != nil || got.String() != text {
			t.Errorf("%s: %s: %v (%v), want %s", name, key, got, err, text)
		}
	}
	for name, e := range map[string]*Engine{"first": e, "follower": other, "restarted": loaded} {
		for key, text := range map[string]string{"a": "27 (9 or more)", "b": "7", AllKeys: "34 (16 or more)"} {
			got, err := e.CountAt(later, key, time.Hour)
			want(name, key, got, err, text)
			got, err = e.CountIn(e.HeldPartitions(), later, key, time.Hour)
			want(name, key+" of partitions", got, err, text)
		}
		for _, key := range []string{"a", AllKeys} {
			got, err := e.CountAt(later, key, time.Minute) // in which nothing was sampled
			want(name, key, got, err, "4")
		}
		series, err := e.Series("a", later.Add(-time.Hour), later, 10*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		want(name, "series", series[4].Count, nil, "23 (5 or more)")
		want(name, "series", series[5].Count, nil, "4")
		top, err := e.Top(later, time.Hour, 10, "")
		if err != nil || len(top) != 2 {
			t.Fatalf("%v (%v)", top, err)
		}
		want(name, "top", top[0].Count, nil, "27 (9 or more)")
		if keys, err := e.Keys("", "", 10); err != nil || !slices.Equal(keys, []string{"a", "b"}) {
			t.Errorf("%s: keys %q (%v)", name, keys, err)
		}
		if s := e.Stats(); s.Hits != 34 {
			t.Errorf("%s: %d hits", name, s.Hits)
		}
	}
	if had, err := e.Delete("a"); !had || err != nil {
		t.Fatal(had, err)
	}
	if _, err := e.HitAt(later, "a", 1); err != nil {
		t.Fatal(err)
	}
	for partition := range cfg.Partitions {
		var c replication.Cut
		e.Cut(partition, &c, false)
		other.Apply(partition, c.Deltas, nil)
	}
	for name, e := range map[string]*Engine{"first": e, "follower": other} {
		got, err := e.CountAt(later, "a", time.Hour)
		want(name, "deleted", got, err, "1")
		got, err = e.CountAt(later, AllKeys, time.Hour)
		want(name, "all with the deleted", got, err, "35 (17 or more)")
	}
}

// Under a flood of new keys no count of sampled hits is without its doubt.
func TestEvictionKeepsDoubt(t *testing.T) {
	const keys = 20_000
	e := newTestEngine(t, Config{Partitions: 2, Memory: 1 << 20, Clock: EventClock})
	now := time.Unix(1_769_860_800, 0)
	for i := range keys {
		if _, err := e.HitSampled(now.Add(time.Duration(i/100)*time.Second), fmt.Sprint("k", i), 10, 9); err != nil {
			t.Fatal(err)
		}
	}
	if s := e.Stats(); s.EvictedKeys == 0 {
		t.Fatal("nothing was evicted")
	}
	there := 0
	for i := range keys {
		key := fmt.Sprint("k", i)
		got, err := e.CountAt(e.Now(), key, time.Hour)
		if err != nil || got.Lower > 1 || got.Exact() && got.Estimate > 0 {
			t.Fatalf("%s: %v (%v)", key, got, err)
		}
		if got.Estimate > 0 {
			there++
		}
	}
	if got, err := e.CountAt(e.Now(), AllKeys, time.Hour); there == 0 || err != nil || got.Estimate != 10*keys || got.Lower != keys || got.HasUpper() {
		t.Errorf("%d keys are left, and of all hits %v (%v)", there, got, err)
	}
}

// Hits of a key for which there is no companion's name are refused, and count nothing.
func TestLongKeyOfSampledHits(t *testing.T) {
	e := newTestEngine(t, Config{})
	long := fmt.Sprintf("%0*d", MaxKeyBytes-len(SampledPrefix)+1, 0)
	if _, err := e.HitSampled(e.Now(), long, 10, 9); err == nil {
		t.Error("taken")
	}
	if _, err := e.HitSampled(time.Now(), long[1:], 10, 9); err != nil {
		t.Error(err)
	}
	if got, err := e.Count(AllKeys, time.Hour); err != nil || got.Estimate != 10 {
		t.Errorf("%v (%v)", got, err)
	}
}
