package journal

import (
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/journal/join/jointest"
)

// Three nodes, of which one is two hours behind and one a year ahead: what each of them
// admits of a shared limit counts at all, and its hits make nothing too late.
func TestClocksOfNodesDiffer(t *testing.T) {
	c := newCluster(t, 3)
	offs := []time.Duration{0, -2 * time.Hour, 365 * 24 * time.Hour}
	c.of = func(i int) weir.Config { return clockConfig(offs[i]) }
	c.start()
	limits := c.limits(weir.WhereShared, "hourly", weir.Limit{N: 5, Per: time.Hour})
	for i, node := range c.nodes {
		if v, err := limits[i].Take("k", 1); err != nil || !v.Allowed {
			t.Fatalf("node %d: %+v, %v", i+1, v, err)
		}
		if err := node.e.Hit("h"); err != nil {
			t.Fatalf("node %d: %v", i+1, err)
		}
		node.sync()
	}
	for i, node := range c.nodes {
		jointest.Eventually(t, "all know three admissions", func() bool {
			v, err := limits[i].Peek("k", 1)
			return err == nil && v.Remaining == 2
		})
		for _, key := range []string{"h", "other"} {
			if outcome, err := node.e.HitAt(node.j.now(), key, 1); err != nil || outcome == weir.TooLate {
				t.Errorf("node %d: %s: %v, %v", i+1, key, outcome, err)
			}
		}
	}
}
