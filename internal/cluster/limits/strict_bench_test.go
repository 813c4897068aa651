package limits

import (
	"fmt"
	"testing"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/cluster/clustertest"
	"github.com/weir-counter/weir/internal/durable"
)

// How long a decision takes on three nodes of this machine: of a limit that is
// shared, of a strict one at its holder and at another node, admitted (the journal
// has it on the disks of two nodes) and denied.
func BenchmarkDecision(b *testing.B) {
	c := newCluster(b, `limits:
  - {name: shared, keys: "shared:*", limit: 1_000_000_000, per: 1h, where: shared}
  - {name: yes, keys: "yes:*", limit: 1_000_000_000, per: 1h, where: strict}
  - {name: no, keys: "no:*", limit: 1, per: 1h, where: strict}
`, durable.DefaultConfig().FlushEvery)
	for _, key := range []string{"shared:k", "yes:k", "no:k"} {
		c.Decided(0, key)
		holder := 0
		if key != "shared:k" {
			holder = c.holder(b, key)
		}
		for i, at := range []string{"holder", "other node"} {
			for _, callers := range []int{1, 32} {
				b.Run(fmt.Sprintf("%s/%s/%d callers", key[:len(key)-2], at, callers), func(b *testing.B) {
					clustertest.Measure(b, callers, func(_ int, d *admit.Decision) {
						if err := c.At((holder+i)%3).Live.Take([]admit.Request{{Key: key, N: 1}}, d); err != nil || d.Results[0].Away != "" {
							b.Errorf("%+v, %v", d.Results, err)
						}
					})
				})
			}
		}
	}
}
