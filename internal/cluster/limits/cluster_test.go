package limits_test

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/limits"
)

// testTTL is short, so that tests see many holders.
const testTTL = 3 * time.Second

func newCluster(t testing.TB, policies string, flushEvery time.Duration) *limits.Cluster {
	t.Helper()
	return limits.NewCluster(t, policies, flushEvery, 0)
}
