package limits

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/grant"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/limit"
)

// A node that asks for ever new keys has the holder keep no more of them than it may, and takes nothing from those of
// which something is out.
func TestKeysOfAGranterAreBounded(t *testing.T) {
	t.Parallel()
	e, err := engine.New(engine.Config{Partitions: 2 * groupCount, Gather: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	l := newLimits(Config{Node: "a", Engine: e})
	l.most = 20
	l.learn(0, 1)
	keyed, err := e.Limits().LimitIn("a", limit.WhereLeased, "x", engine.Limit{N: 1000, Per: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	g, asked := &l.groups[0], 0
	ask := func(key string, want uint64) grant.Answer {
		t.Helper()
		a, _, _ := l.serve(0, 1, &question{node: "b", take: true, items: []item{{record: keyed.Record(), key: key,
			ask: grant.Ask{ID: grant.ID{Number: 1}, Need: 1, Want: want, Demand: want}}}})
		if a.err != nil || !a.Allowed {
			t.Fatalf("%s: %+v, %v", key, a, a.err)
		}
		if asked++; len(g.books) > l.most {
			t.Fatalf("%d books after %d keys", len(g.books), asked)
		}
		return a.grants[0]
	}
	granted := map[string]bool{}
	for n := range 1600 {
		key := fmt.Sprint("k", n)
		if e.Keyspace().PartitionOf(key)%groupCount != 0 {
			continue
		}
		want := uint64(0)
		if len(granted) < 5 {
			want = 10
		}
		if a := ask(key, want); a.Granted > 0 {
			granted[key] = true
		}
	}
	if asked < 2*l.most || len(granted) != 5 {
		t.Fatalf("%d keys asked for, of %d something was granted", asked, len(granted))
	}
	g.sweep(l.cfg.Engine.Limits().Clock.Now()+int64(sweepPause), l.most) // those that only know of what was asked make space
	if len(g.books) != len(granted) {
		t.Errorf("%d books where %d keys have something out", len(g.books), len(granted))
	}
	for key := range granted {
		if g.books[bookKey{"x", key}] == nil {
			t.Errorf("%s: what is out of it is forgotten", key)
		}
	}
}

// A node that was restarted asks with another number than its grant has. The owner decides, grants nothing, and its answer can be read.
func TestANodeWithAnotherGrantIsAnswered(t *testing.T) {
	t.Parallel()
	e, err := engine.New(engine.Config{Partitions: groupCount, Gather: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	l := newLimits(Config{Node: "a", Engine: e})
	keyed, err := e.Limits().LimitIn("a", limit.WhereLeased, "x", engine.Limit{N: 1000, Per: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	group := e.Keyspace().PartitionOf("k") % groupCount
	l.learn(group, 1)
	for number := uint64(1); number <= 2; number++ {
		q := &question{node: "b", take: true, items: []item{{record: keyed.Record(), key: "k", ask: grant.Ask{ID: grant.ID{Number: number}, Need: 1, Want: 10, Demand: 10}}}}
		read, err := readQuestion(q.append(nil))
		if err != nil {
			t.Fatal(err)
		}
		served, _, _ := l.serve(group, 1, read)
		a, err := readAnswer(served.append(nil, read), q)
		if err != nil || !a.Allowed || a.grants[0].Granted > 0 != (number == 1) {
			t.Errorf("number %d: %+v, %v", number, a, err)
		}
	}
}

// A node that stops gives back all that it was granted, also of a key that is asked for all the time.
func TestANodeThatStopsKeepsNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "limits:\n  - {name: m, keys: \"m:*\", limit: 600_000, per: 1h, where: leased}\n", 20*time.Millisecond)
	const key = "m:a"
	for i := range ClusterSize {
		c.Decided(i, key)
	}
	owner := c.holder(t, key)
	stops := (owner + 1) % ClusterSize
	transporttest.Eventually(t, "the node was granted something", func() bool {
		for range 100 {
			c.Take(stops, key)
		}
		<-time.After(10 * time.Millisecond)
		return c.At(stops).Decider.Stats().Granted > 0
	})
	c.Leave(stops)
	if s := c.At(owner).Decider.Stats(); s.Out > 0 {
		t.Errorf("%d admissions count as used for an hour", s.Out)
	}
}
