package durable

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/limit"
)

// What one node forgets of limits that requests bring along, all forget.
func TestForgetInlineOnAllNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.start()
	made := make([]*engine.KeyedLimit, len(c.nodes))
	for i, node := range c.nodes {
		l, err := node.e.Limits().LimitIn(c.cfgs[i].Join.Node, limit.WhereLeased, "mine", engine.Limit{N: 10, Per: time.Hour})
		if err == nil {
			err = l.Inline()
		}
		if err != nil {
			t.Fatal(err)
		}
		made[i] = l
	}
	until := func(remaining uint64) {
		t.Helper()
		c.applied()
		for i, l := range made {
			if v, err := l.Peek("a", 0); err != nil || v.Remaining != remaining {
				t.Errorf("node %d: %+v, %v, want %d left", i, v, err, remaining)
			}
		}
	}
	for _, l := range made {
		l.Allow("a")
	}
	until(7)
	if n, err := c.nodes[1].e.Limits().ForgetInline("mine"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	until(10)
	made[0].Allow("a")
	until(9)
}
