package strict

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/journal"
	"github.com/weir-counter/weir/policy"
)

// How long a decision takes on three nodes of this machine: of a limit that is
// shared, of a strict one at its holder and at another node, admitted (the journal
// has it on the disks of two nodes) and denied.
func BenchmarkDecision(b *testing.B) {
	c := newCluster(b, `limits:
  - {name: shared, keys: "shared:*", limit: 1_000_000_000, per: 1h, where: shared}
  - {name: yes, keys: "yes:*", limit: 1_000_000_000, per: 1h, where: strict}
  - {name: no, keys: "no:*", limit: 1, per: 1h, where: strict}
`, journal.DefaultConfig().FlushEvery)
	for _, key := range []string{"shared:k", "yes:k", "no:k"} {
		c.decided(0, key)
		holder := 0
		if key != "shared:k" {
			holder = c.holder(key)
		}
		for i, at := range []string{"holder", "other node"} {
			for _, callers := range []int{1, 32} {
				b.Run(fmt.Sprintf("%s/%s/%d callers", key[:len(key)-2], at, callers), func(b *testing.B) {
					c.measure(b, (holder+i)%3, key, callers)
				})
			}
		}
	}
}

func (c *cluster) measure(b *testing.B, i int, key string, callers int) {
	var mu sync.Mutex
	var all []time.Duration
	var asking sync.WaitGroup
	asks := make(chan struct{})
	for range callers {
		asking.Go(func() {
			var d policy.Decision
			var took []time.Duration
			for range asks {
				began := time.Now()
				if err := c.at(i).live.Take([]policy.Request{{Key: key, N: 1}}, &d); err != nil || d.Results[0].Away != "" {
					b.Errorf("%+v, %v", d.Results, err)
				}
				took = append(took, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
		})
	}
	for b.Loop() {
		asks <- struct{}{}
	}
	close(asks)
	asking.Wait()
	slices.Sort(all)
	for _, q := range []int{50, 99} {
		b.ReportMetric(float64(all[(len(all)-1)*q/100].Nanoseconds())/1e6, fmt.Sprintf("p%d-ms", q))
	}
}
