package limits

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/cluster/clustertest"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine/side"
)

// testTTL is short, so that tests see many holders.
const testTTL = 3 * time.Second

// cluster is nodes of one cluster in this process.
type cluster struct{ *clustertest.Cluster[*decider] }

// decider is a Strict whose Lender may answer late.
type decider struct {
	*Strict
	lender *lateLender
}

// lateLender answers one change late, after it was made.
type lateLender struct {
	alone
	late atomic.Int64 // ns
}

func (l *lateLender) Decide(group int, q Question) (Answer, error) {
	a, err := l.alone.Decide(group, q)
	if q.Change.Kind != side.NoChange {
		time.Sleep(time.Duration(l.late.Swap(0)))
	}
	return a, err
}

func newCluster(t testing.TB, policies string, flushEvery time.Duration) *cluster {
	t.Helper()
	return newClusterWithin(t, policies, flushEvery, 0)
}

// newClusterWithin is newCluster with a deadline of questions; 0: the default.
func newClusterWithin(t testing.TB, policies string, flushEvery, deadline time.Duration) *cluster {
	t.Helper()
	return &cluster{clustertest.New(t, policies, flushEvery, func(ctx context.Context, o clustertest.Opening) (*decider, admit.Cluster, error) {
		d := &decider{lender: &lateLender{alone: alone{o.Engine}}}
		var err error
		d.Strict, err = OpenStrict(ctx, StrictConfig{Journal: o.Journal, Engine: o.Engine, Lender: d.lender, Node: o.Name, Deadline: deadline, Logger: o.Logger})
		return d, admit.Cluster{Strict: d.Strict}, err
	})}
}

// holder waits until one node decides for a key, and returns it.
func (c *cluster) holder(t testing.TB, key string) (holder int) {
	t.Helper()
	transporttest.Eventually(t, "a node decides for "+key, func() bool {
		for i := range clustertest.Size {
			if n := c.At(i); n != nil {
				if _, ok := n.Decider.holds(n.Decider.Group(key)); ok {
					holder = i
					return true
				}
			}
		}
		return false
	})
	return holder
}
