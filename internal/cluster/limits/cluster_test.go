package limits_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/cluster/clustertest"
	"github.com/weir-counter/weir/internal/cluster/limits"
)

// testTTL is short, so that tests see many holders.
const testTTL = 3 * time.Second

func newCluster(t testing.TB, policies string, flushEvery time.Duration) *clustertest.Cluster[*limits.Limits] {
	t.Helper()
	return clustertest.New(t, policies, flushEvery, func(_ context.Context, o clustertest.Opening) (*limits.Limits, admit.Cluster, error) {
		l, err := limits.Open(limits.Config{Journal: o.Journal, Engine: o.Engine, Node: o.Name, Logger: o.Logger})
		return l, admit.Cluster{Owners: l}, err
	})
}
