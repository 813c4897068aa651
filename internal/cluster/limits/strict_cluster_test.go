package limits

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// testTTL is short, so that tests see many holders.
const testTTL = 3 * time.Second

// cluster is nodes of one cluster in this process.
type cluster struct{ *Cluster }

// answerLate has a node answer one change late, as the owner, after it was made.
func (c *cluster) answerLate(node int, by time.Duration) {
	var late atomic.Int64
	late.Store(int64(by))
	l := c.At(node).Decider
	g := &l.groups[0]
	g.mu.Lock()
	defer g.mu.Unlock()
	l.decided = func(q *question) {
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
	return &cluster{NewCluster(t, policies, flushEvery, deadline)}
}

// holder waits until one node decides for a key, and returns it.
func (c *cluster) holder(t testing.TB, key string) (holder int) {
	t.Helper()
	transporttest.Eventually(t, "a node decides for "+key, func() bool {
		for i := range ClusterSize {
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
