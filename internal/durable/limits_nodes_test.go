package durable

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/limit"
)

func (c *cluster) limits(where limit.Where, name string, l engine.Limit) (list []*engine.KeyedLimit) {
	c.t.Helper()
	for i, node := range c.nodes {
		kl, err := node.e.Limits().LimitIn(fmt.Sprintf("n%d", i+1), where, name, l)
		if err != nil {
			c.t.Fatal(err)
		}
		list = append(list, kl)
	}
	return list
}

// applied waits until every node knows what all others did before.
func (c *cluster) applied() {
	c.t.Helper()
	now := time.Now().Add(time.Millisecond)
	transporttest.Eventually(c.t, "all nodes know of all others", func() bool {
		for _, node := range c.nodes {
			if known, _ := node.j.LateOrigins(); known.Before(now) {
				return false
			}
		}
		return true
	})
}

// A node's own limit counts nobody else's admissions, and is there again after a
// crash; so is a leased one of a short period.
func TestLimitsSurviveACrash(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.start()
	own, both := engine.Limit{N: 4, Per: time.Hour}, engine.Limit{N: 6, Per: 50 * time.Second}
	for i, kl := range c.limits(limit.WhereNode, "own", own) {
		if !kl.AllowN("k", uint64(i+1)) {
			t.Errorf("node %d: denied", i+1)
		}
	}
	leased := c.limits(limit.WhereLeased, "both", both)
	if !leased[1].AllowN("k", 5) {
		t.Error("denied")
	}
	c.applied()
	if v, err := leased[0].Peek("k", 0); err != nil || v.Remaining != 1 {
		t.Errorf("n1 of what n2 admitted: %+v, %v", v, err)
	}
	if err := c.nodes[1].j.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.nodes[1].crash()
	c.nodes[1] = nil
	c.start()
	for i, kl := range c.limits(limit.WhereNode, "own", own) {
		if v, err := kl.Peek("k", 0); err != nil || v.Remaining != uint64(3-i) {
			t.Errorf("node %d: %+v, %v, want %d left", i+1, v, err, 3-i)
		}
	}
	for i, kl := range c.limits(limit.WhereLeased, "both", both) {
		if v, err := kl.Peek("k", 0); err != nil || v.Remaining != 1 {
			t.Errorf("node %d: %+v, %v: want 1 left", i+1, v, err)
		}
	}
}
