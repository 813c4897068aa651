package limits

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/grant"
	"github.com/weir-counter/weir/internal/cluster/kv"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/limit"
)

// A node that asks for ever new keys has the holder keep no more of them than it may, and takes nothing from those of
// which something is out.
func TestKeysOfALenderAreBounded(t *testing.T) {
	t.Parallel()
	e, err := engine.New(engine.Config{Partitions: 2 * kv.Groups, Gather: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	l := &newLimits(Config{Node: "a", Engine: e}).lends
	l.most = 20
	l.learn(0, 1)
	of, err := e.LimitIn("a", limit.WhereLeased, "x", engine.Limit{N: 1000, Per: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	g, asked := &l.groups[0], 0
	ask := func(key string, want uint64) grant.Answer {
		t.Helper()
		a, _, _ := l.serve(0, 1, &question{node: "b", take: true, items: []item{{record: of.Record(), key: key,
			ask: grant.Ask{ID: grant.ID{Number: 1}, Need: 1, Want: want, Demand: want}}}})
		if a.err != nil || !a.Allowed {
			t.Fatalf("%s: %+v, %v", key, a, a.err)
		}
		if asked++; len(g.books) > l.most {
			t.Fatalf("%d books after %d keys", len(g.books), asked)
		}
		return a.grants[0]
	}
	lent := map[string]bool{}
	for n := range 1600 {
		key := fmt.Sprint("k", n)
		if e.PartitionOf(key)%kv.Groups != 0 {
			continue
		}
		want := uint64(0)
		if len(lent) < 5 {
			want = 10
		}
		if a := ask(key, want); a.Granted > 0 {
			lent[key] = true
		}
	}
	if asked < 2*l.most || len(lent) != 5 {
		t.Fatalf("%d keys asked for, of %d something was lent", asked, len(lent))
	}
	g.sweep(l.cfg.Engine.LimitClock()+int64(sweepPause), l.most) // those that only know of what was asked make room
	if len(g.books) != len(lent) {
		t.Errorf("%d books where %d keys have something out", len(g.books), len(lent))
	}
	for key := range lent {
		if g.books[bookKey{"x", key}] == nil {
			t.Errorf("%s: what is out of it is forgotten", key)
		}
	}
}
