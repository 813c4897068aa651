package engine

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
)

// takeCut cuts what was counted, and returns it.
func takeCut(e *Engine) []replication.Delta {
	var c replication.Cut
	e.Cut(0, &c, false)
	return append([]replication.Delta(nil), c.Deltas...)
}

// checkAll checks the counts of k and of all keys.
func checkAll(t *testing.T, e *Engine, what string, want, all uint64) {
	t.Helper()
	for key, want := range map[string]uint64{"k": want, AllKeys: all} {
		got, err := e.CountAt(e.Now(), key, time.Hour)
		if err != nil || got.Lower != want || got.Upper != want {
			t.Errorf("%s: %+v of %s, want %d, %v", what, got, key, want, err)
		}
	}
}

// Hits that are taken back are found where a clock that ran back has put them, in whole or in part.
func TestRetractOfQuarantined(t *testing.T) {
	for _, back := range []time.Duration{time.Minute, 3 * time.Hour} {
		now := unix(1_700_000_000)
		e := newTestEngine(t, Config{Clock: EventClock, Partitions: 1, Gather: true, Now: func() time.Time { return now }})
		for range 2 {
			e.HitAt(now, "k", 3)
		}
		e.HitAt(now.Add(-time.Second), "k", 2)
		takeCut(e)
		at := now.Unix()
		now = now.Add(-back)
		e.HitAt(now, "k", 1)
		takeCut(e)
		e.Retract(0, []replication.Delta{{Key: "k", At: at, N: 4}, {Key: "k", At: at - 1, N: 2}})
		now = unix(at + 10)
		e.HitAt(now, "k", 5)
		takeCut(e)
		e.lookAhead()
		want := uint64(2 + 5)
		if back < time.Hour {
			want++
		}
		checkAll(t, e, "after a step back by "+back.String(), want, want)
	}
}

// A hit that is taken back is gone already if an own removal came after it: in the same batch, in a later one of the same flush, or
// after its cut. Hits of the same second that came after the removal stay. A removal before it took nothing.
func TestRetractBeforeRemoval(t *testing.T) {
	now := unix(1_700_000_000)
	hit := replication.Delta{Key: "k", At: now.Unix(), N: 3}
	for what, c := range map[string]struct {
		before, batch, later bool // a removal before the hit, after it and in its batch, after its batch
		want                 uint64
	}{
		"none":            {want: 5},
		"before":          {before: true, want: 5},
		"in the batch":    {batch: true, want: 5},
		"later":           {later: true, want: 5},
		"before, later":   {before: true, later: true, want: 5},
		"before, and two": {before: true, batch: true, later: true, want: 5},
	} {
		e := newTestEngine(t, Config{Clock: EventClock, Partitions: 1, Gather: true, Now: func() time.Time { return now }})
		var batch []replication.Delta
		remove := func() {
			if had, err := e.Delete("k"); !had || err != nil {
				t.Fatalf("%s: %v, %v", what, had, err)
			}
			batch = append(batch, replication.Delta{Key: "k"})
		}
		if c.before {
			e.HitAt(now, "k", 1)
			remove()
		}
		e.HitAt(now, "k", 3)
		batch = append(batch, hit)
		if c.batch {
			remove()
		}
		if c.later {
			e.HitAt(now, "k", 1)
			e.Delete("k")
		}
		e.HitAt(now, "k", 5)
		takeCut(e)
		e.Retract(0, batch)
		got, err := e.CountAt(now, "k", time.Hour)
		if err != nil || got.Lower != c.want || got.Upper != c.want {
			t.Errorf("removal %s: %+v, want %d, %v", what, got, c.want, err)
		}
	}
}
