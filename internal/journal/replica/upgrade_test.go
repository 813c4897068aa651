package replica

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/admission"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/limit"
)

// What the build before records with types wrote is read: its flushes, and its snapshots with the flushes after them. There
// are two flushes a second apart, each with a snapshot after it.
func TestUpgradeFromFlagsOfLimits(t *testing.T) {
	for name, files := range map[string][]string{
		"flushes": {"before.flush", "after.flush"}, "snapshot and flush": {"before.snapshot", "after.flush"}, "snapshot": {"after.snapshot"},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1_900_000_001, 0)
			e, err := engine.New(engine.Config{Partitions: 1, Gather: true, Now: func() time.Time { return now }})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			h := NewHolding(e)
			for _, file := range files {
				data, err := os.ReadFile("testdata/version5/" + file)
				if err != nil {
					t.Fatal(err)
				}
				if filepath.Ext(file) == ".snapshot" {
					snap, err := record.DecodeSnapshot(data)
					if err == nil {
						err = LoadInto(e, snap, nil)
					}
					if err != nil {
						t.Fatal(err)
					}
					continue
				}
				p, err := record.DecodePart(data)
				if err != nil {
					t.Fatal(err)
				}
				for _, b := range p.Batches {
					if err := h.Count(b, false, false); err != nil {
						t.Fatal(err)
					}
				}
			}
			checkUpgraded(t, e)
		})
	}
}

func checkUpgraded(t *testing.T, e *engine.Engine) {
	t.Helper()
	must := func(l *engine.KeyedLimit, err error) *engine.KeyedLimit {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	w := must(e.LimitIn("n1", limit.WhereLeased, "w", engine.Limit{N: 100, Per: time.Hour}))
	p := must(e.LimitIn("n1", limit.WhereStrict, "p", engine.Limit{N: 2, Per: time.Hour}))
	in := must(e.Limit("in", engine.Limit{N: 9, Per: time.Hour}))
	for _, of := range []struct {
		limit *engine.KeyedLimit
		key   string
		left  uint64
	}{
		{w, "used", 40}, {w, "refund", 88}, {w, "reset", 98}, {w, "gone:1", 100}, {w, "granted", 5}, {w, "k", 69}, {in, "k", 8},
		{must(e.Limit("day", engine.Limit{N: 10, Calendar: limit.Calendar{Unit: limit.Day}})), "k", 4},
		{must(e.LimitIn("n1", limit.WhereStrict, "s", engine.Limit{N: 50, Per: time.Hour})), "k", 42},
		{must(e.LimitIn("n1", limit.WhereNode, "n", engine.Limit{N: 50, Per: time.Hour})), "k", 40},
	} {
		if v, err := of.limit.Peek(of.key, 0); err != nil || v.Remaining != of.left {
			t.Errorf("%d left of %s for %s, %v, want %d", v.Remaining, of.limit.Name(), of.key, err, of.left)
		}
	}
	if count, err := e.CountAt(time.Unix(1_900_000_001, 0), "page", time.Minute); err != nil || count.Lower != 1 {
		t.Errorf("%+v, %v", count, err)
	}
	if bans := e.Bans(9); len(bans) != 1 || bans[0].Key != "banned" {
		t.Errorf("bans %+v", bans)
	}
	for holder, want := range map[uint64]bool{1: false, 2: true} {
		if got, err := p.RenewPermit("k", holder); err != nil || got.OK != want {
			t.Errorf("holder %d: %+v, %v", holder, got, err)
		}
	}
	for id, want := range map[string]engine.Settled{
		"open": {Known: true, Used: 11, Freed: 9}, "settled": {Known: true, Again: true, Used: 5}, "later": {Known: true, Again: true, Used: 6},
	} {
		done, err := w.Settle("k", id, 11, false)
		if done.Present = (limit.Verdict{}); err != nil || done != want {
			t.Errorf("reservation %s: %+v, %v, want %+v", id, done, err, want)
		}
	}
	outstanding := map[string]uint64{}
	e.Outs(func(int) bool { return true }, func(o admission.Out) { outstanding[o.Limit+" "+o.Key+" "+o.Holder] = o.N })
	if got := fmt.Sprint(outstanding); got != "map[w k n2:9 w other n2:3]" {
		t.Errorf("outstanding %s", got)
	}
}
