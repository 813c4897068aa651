package durable

import (
	"testing"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// The node that took the snapshots is gone, and its lease is not over: nobody takes them now.
func TestNobodyGoneTakesSnapshots(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.start()
	by := func(viewer *running) (node string) {
		transporttest.Eventually(t, "the cluster's status", func() bool {
			a := api.ClusterAnswer{}
			viewer.j.AddNodes(t.Context(), &a)
			node = a.SnapshotsBy
			return len(a.Problems) == 0
		})
		return node
	}
	names := map[string]int{"n1": 0, "n2": 1, "n3": 2}
	taker := ""
	transporttest.Eventually(t, "some node takes snapshots", func() bool {
		taker = by(c.nodes[0])
		return taker != ""
	})
	gone := names[taker]
	c.nodes[gone].j.Joined().Close() // before it can give its lease back
	other := c.nodes[(gone+1)%3]
	transporttest.Eventually(t, "the node is known to be gone", func() bool { return isGone(other.j.Origins(), taker) })
	if is := by(other); is == taker {
		t.Errorf("%s takes the snapshots, and is gone", is)
	}
}
