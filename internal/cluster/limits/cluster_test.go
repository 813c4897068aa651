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

// decider is what decides on a node: its leased limits, and who holds what.
type decider struct {
	*limits.Leased
	strict *limits.Strict
}

func (d decider) Close(ctx context.Context) error {
	d.Leased.Close()
	return d.strict.Close(ctx)
}

func newCluster(t testing.TB, policies string, flushEvery time.Duration) *clustertest.Cluster[decider] {
	t.Helper()
	return clustertest.New(t, policies, flushEvery, func(ctx context.Context, o clustertest.Opening) (decider, admit.Cluster, error) {
		d := decider{Leased: limits.NewLeased(limits.LeasedConfig{Engine: o.Engine, Node: o.Name, Logger: o.Logger})}
		var err error
		d.strict, err = limits.OpenStrict(ctx, limits.StrictConfig{
			Journal: o.Journal, Engine: o.Engine, Node: o.Name, Lender: d.Lender(), Logger: o.Logger,
		})
		if err != nil {
			return d, admit.Cluster{}, err
		}
		d.Run(d.strict)
		return d, admit.Cluster{Strict: d.strict, Leased: d.Leased}, nil
	})
}
