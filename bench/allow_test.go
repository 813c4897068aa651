package bench

import (
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"golang.org/x/time/rate"
)

// BenchmarkAllow is a request to one limiter by its own clock: where all are
// admitted, and where all but the first are denied. For information: no target
// rests on it.
func BenchmarkAllow(b *testing.B) {
	for _, limit := range []struct {
		name string
		weir weir.Limit
		rate *rate.Limiter
	}{
		{"admitted", weir.Limit{N: 1_000_000, Per: time.Second, Burst: 1 << 45}, rate.NewLimiter(1_000_000, 1<<45)},
		{"denied", weir.Limit{N: 1, Per: time.Hour}, rate.NewLimiter(rate.Every(time.Hour), 1)},
	} {
		limiter, err := weir.NewLimiter(limit.weir)
		if err != nil {
			b.Fatal(err)
		}
		for _, design := range []struct {
			name  string
			share share
		}{
			{"weir.Limiter", func(_ int64, _, n int) {
				for range n {
					limiter.Allow()
				}
			}},
			{"x-time-rate", func(_ int64, _, n int) {
				for range n {
					limit.rate.Allow()
				}
			}},
		} {
			b.Run("requests="+limit.name+"/design="+design.name, func(b *testing.B) {
				forThreads(b, func(b *testing.B, goroutines int) {
					runShares(b, goroutines, 1<<20, design.share)
				})
			})
		}
	}
}
