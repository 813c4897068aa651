package limits_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/cluster/limits"
)

// What a decision costs that a node makes by itself: of a limit that is the node's alone, and of a
// leased one that is asked for all the time; at the node that decides for all, and at another.
func BenchmarkHotKey(b *testing.B) {
	c := newCluster(b, `limits:
  - {name: node, keys: "node:*", limit: 100_000_000, per: 10m, where: node}
  - {name: leased, keys: "leased:*", limit: 100_000_000, per: 10m, where: leased}
`, 100*time.Millisecond)
	for i := range limits.ClusterSize {
		c.Decided(i, "leased:k")
	}
	for _, key := range []string{"node:k", "leased:k"} {
		for i := range limits.ClusterSize {
			warm := time.Now().Add(3 * time.Second)
			for n := 0; key == "leased:k" && time.Now().Before(warm); n++ {
				c.Take(i, key)
			}
			b.Run(fmt.Sprintf("%s/n%d", key[:len(key)-2], i+1), func(b *testing.B) {
				n := c.At(i)
				before := n.Decider.Stats()
				var d admit.Decision
				reqs := []admit.Request{{Key: key, N: 1}}
				b.ReportAllocs()
				for b.Loop() {
					if err := n.Live.Take(reqs, &d); err != nil || !d.Allowed {
						b.Fatalf("%+v, %v", d, err)
					}
				}
				if after := n.Decider.Stats(); key == "leased:k" {
					b.ReportMetric(float64(after.Asked-before.Asked)/float64(b.N), "messages/op")
				}
			})
		}
	}
}

// What a decision costs of keys that are seldom asked for, in ms, for one caller and for 32: each is a
// message to the holder, and a flush of its journal.
func BenchmarkColdKeys(b *testing.B) {
	c := newCluster(b, "limits:\n  - {name: cold, keys: \"cold:*\", limit: 5, per: 1m, where: leased}\n", 100*time.Millisecond)
	for k := range 200 { // of all groups
		c.Decided(0, fmt.Sprint("cold:", k))
	}
	for _, callers := range []int{1, 32} {
		b.Run(fmt.Sprintf("%d callers", callers), func(b *testing.B) {
			limits.Measure(b, callers, func(n int, _ *admit.Decision) {
				if d := c.TakeDecided(0, fmt.Sprintf("cold:%d:%d:%d", callers, b.N, n)); !d.Allowed {
					b.Errorf("%+v", d.Results)
				}
			})
		})
	}
}
