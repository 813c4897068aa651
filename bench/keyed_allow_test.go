package bench

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/weir-counter/weir/bench/limiters"
)

// BenchmarkKeyedAllow is a request of one of a million keys that have all been
// seen, picked after Zipf's law, under a limit for each: 10 per second, which
// refuses the most frequent keys, and 1000.
func BenchmarkKeyedAllow(b *testing.B) {
	for _, requests := range []uint64{10, 1000} {
		for _, design := range limiters.Designs() {
			b.Run(fmt.Sprintf("requests=%d/design=%s", requests, design.Name), func(b *testing.B) {
				allow := design.New(requests)
				keys, picks := keys(), picks()
				for _, key := range keys {
					allow(strings.Clone(key))
				}
				runtime.GC() // so that none falls into the measurement
				forThreads(b, func(b *testing.B, goroutines int) {
					runShares(b, goroutines, 1<<20, func(_ int64, first, n int) {
						for i := first; i < first+n; i++ {
							allow(keys[picks[i%keyedPicks]])
						}
					})
				})
			})
		}
	}
}
