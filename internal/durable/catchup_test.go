package durable

import (
	"testing"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/limit"
)

// After CatchUp a node knows all that another had acknowledged before, at once.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.start()
	limits := c.limits(limit.WhereStrict, "strict", engine.Limit{N: 1000, Per: 1e9 * 3600})
	for n := range uint64(60) {
		from, to := n%3, (n+1+n/3%2)%3
		if !limits[from].Allow("k") {
			t.Fatal("denied")
		}
		if err := c.nodes[from].j.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.nodes[to].j.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		if v, err := limits[to].Peek("k", 0); err != nil || v.Remaining != 999-n {
			t.Fatalf("node %d: %+v, %v: want %d left", to+1, v, err, 999-n)
		}
	}
}
