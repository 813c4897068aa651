package limits

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/admit"
)

// How long a decision of a strict limit takes on three nodes of this machine, at the owner and at another node, admitted (the
// journal has it on the disks of two nodes) and denied.
func BenchmarkDecision(b *testing.B) {
	c := newCluster(b, `limits:
  - {name: yes, keys: "yes:*", limit: 1_000_000_000, per: 1h, where: strict}
  - {name: no, keys: "no:*", limit: 1, per: 1h, where: strict}
`, 100*time.Millisecond)
	for _, key := range []string{"yes:k", "no:k"} {
		c.Decided(0, key)
		holder := c.holder(b, key)
		for i, at := range []string{"holder", "other node"} {
			for _, callers := range []int{1, 32} {
				b.Run(fmt.Sprintf("%s/%s/%d callers", key[:len(key)-2], at, callers), func(b *testing.B) {
					Measure(b, callers, func(_ int, d *admit.Decision) {
						if err := c.At((holder+i)%3).Live.Take([]admit.Request{{Key: key, N: 1}}, d); err != nil || d.Results[0].Away != "" {
							b.Errorf("%+v, %v", d.Results, err)
						}
					})
				})
			}
		}
	}
}
