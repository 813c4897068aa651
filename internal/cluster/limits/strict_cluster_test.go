package limits

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/cluster/clustertest"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// testTTL is short, so that tests see many holders.
const testTTL = 3 * time.Second

// cluster is nodes of one cluster in this process.
type cluster struct{ *clustertest.Cluster[*Limits] }

// answerLate has a node answer one change late, as the owner, after it was made.
func (c *cluster) answerLate(node int, by time.Duration) {
	var late atomic.Int64
	late.Store(int64(by))
	granter := &c.At(node).Decider.granter
	g := &granter.groups[0]
	g.mu.Lock()
	defer g.mu.Unlock()
	granter.decided = func(q *question) {
		if q.isChange() {
			time.Sleep(time.Duration(late.Swap(0)))
		}
	}
}

func newCluster(t testing.TB, policies string, flushEvery time.Duration) *cluster {
	t.Helper()
	return newClusterWithin(t, policies, flushEvery, 0)
}

// newClusterWithin is newCluster with a deadline of questions; 0: the default.
func newClusterWithin(t testing.TB, policies string, flushEvery, deadline time.Duration) *cluster {
	t.Helper()
	return &cluster{clustertest.New(t, policies, flushEvery, func(_ context.Context, o clustertest.Opening) (*Limits, admit.Cluster, error) {
		l, err := Open(Config{Journal: o.Journal, Engine: o.Engine, Node: o.Name, Deadline: deadline, Logger: o.Logger})
		return l, admit.Cluster{Owners: l}, err
	})}
}

// holder waits until one node decides for a key, and returns it.
func (c *cluster) holder(t testing.TB, key string) (holder int) {
	t.Helper()
	transporttest.Eventually(t, "a node decides for "+key, func() bool {
		for i := range clustertest.Size {
			if n := c.At(i); n != nil {
				if _, ok := n.Decider.owners.holds(n.Decider.Group(key)); ok {
					holder = i
					return true
				}
			}
		}
		return false
	})
	return holder
}
