package durable

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
)

// idsOf are the bytes of a key's ids.
func idsOf(t *testing.T, e *engine.Engine, key string) string {
	t.Helper()
	set, _, err := e.Distinct(e.Now(), key, time.Hour)
	if err != nil || set == nil {
		return fmt.Sprint("none, ", err)
	}
	return string(set.Append(nil))
}

func hitID(t *testing.T, e *engine.Engine, key, id string, at int64) {
	t.Helper()
	expected := e.Keyspace().Expect(nil, []string{key})
	if _, err := e.HitDistinct(time.Unix(at, 0), expected[0], 1, engine.HashID(id)); err != nil {
		t.Fatal(err)
	}
}

// Three nodes have the same ids, few and many, after a crash of one too, and whatever one of them deletes.
func TestNodesHaveTheSameIDs(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.start()
	random := rand.New(rand.NewPCG(3, 4))
	all, err := engine.New(engineConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	hit := func(hits int) {
		for range hits {
			node := c.nodes[random.IntN(3)]
			if node == nil {
				continue
			}
			key, id, at := "few", fmt.Sprint("id", random.IntN(100)), 1_000_000+random.Int64N(300)
			if random.IntN(4) > 0 {
				key, id = "many", fmt.Sprint("id", random.IntN(3000))
			}
			hitID(t, node.e, key, id, at)
			hitID(t, all, key, id, at)
		}
	}
	agree := func(what string) {
		t.Helper()
		for i, node := range c.nodes {
			for _, key := range []string{"few", "many"} {
				transporttest.Eventually(t, fmt.Sprintf("%s: node %d has the ids of %s", what, i+1, key), func() bool {
					return node == nil || idsOf(t, node.e, key) == idsOf(t, all, key)
				})
			}
		}
	}
	hit(4000)
	agree("at first")
	c.nodes[1].crash()
	c.nodes[1] = nil
	hit(2000)
	c.start()
	agree("after a crash")
	for _, e := range []*engine.Engine{c.nodes[2].e, all} {
		if was, err := e.Delete("few"); !was || err != nil {
			t.Fatal(was, err)
		}
	}
	transporttest.Eventually(t, "the key is gone everywhere", func() bool {
		return !c.nodes[0].e.Keyspace().Has("few") && !c.nodes[1].e.Keyspace().Has("few")
	})
	hit(500)
	agree("after a removal")
}

// What was durable before a kill is there after it: from the journal, and from snapshots.
func TestIDsSurvive(t *testing.T) {
	t.Parallel()
	for _, snapshots := range []int64{1 << 20, minSnapshotBytes} {
		cfg := testConfig(t, t.TempDir())
		cfg.SnapshotBytes = snapshots
		r := start(t, cfg)
		for life := range 3 {
			for i := range 1500 {
				hitID(t, r.e, []string{"a", "b"}[i%2], fmt.Sprint(life, "-", i/(1+i%2*10)), 1_000_000+int64(i%200))
			}
			r.sync()
			want := idsOf(t, r.e, "a") + idsOf(t, r.e, "b")
			r.crash()
			r = start(t, cfg)
			if got := idsOf(t, r.e, "a") + idsOf(t, r.e, "b"); got != want || bytes.Contains([]byte(got), []byte("none")) {
				t.Fatalf("life %d: other ids after a crash", life)
			}
		}
		copied := restored(t, r.backup())
		if got := idsOf(t, copied.e, "a"); got != idsOf(t, r.e, "a") {
			t.Error("a restored backup has other ids")
		}
		copied.crash()
		r.crash()
	}
}
