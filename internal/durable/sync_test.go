package durable

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// Whoever waits is not left to the interval, whenever they join: before a flush,
// while one is under way, or as the last of a crowd. A lost wake-up would show as
// a minute.
func TestSyncNeverWaitsForTheInterval(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, filepath.Join(t.TempDir(), "data"))
	cfg.FlushEvery = time.Minute
	r := start(t, cfg)
	defer r.close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	for _, writers := range []int{1, 2, 64} {
		var waiting sync.WaitGroup
		for w := range writers {
			waiting.Go(func() {
				for i := range 100 {
					_, err := r.e.HitAt(time.Unix(1_000_000+int64(i), 0), fmt.Sprint("writer:", w), 1)
					if err = errors.Join(err, r.j.Sync(ctx)); err != nil {
						t.Errorf("writer %d of %d, hit %d: %v", w, writers, i, err)
						return
					}
				}
			})
		}
		waiting.Wait()
	}
}

// BenchmarkSync is the wait of a durable hit without HTTP. Where the 99th
// percentile is far from the median, look at the disk: one slow sync holds up
// everybody who waits.
func BenchmarkSync(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprint("writers=", writers), func(b *testing.B) {
			cfg := testConfig(b, filepath.Join(b.TempDir(), "data"))
			cfg.FlushEvery = time.Minute
			r := start(b, cfg)
			waits := make([][]time.Duration, writers)
			var waiting sync.WaitGroup
			b.ResetTimer()
			for w := range writers {
				waiting.Go(func() {
					for i := range (b.N + writers - 1) / writers {
						began := time.Now()
						_, err := r.e.HitAt(time.Unix(1_000_000+int64(i), 0), fmt.Sprint("writer:", w), 1)
						if err = errors.Join(err, r.j.Sync(b.Context())); err != nil {
							b.Error(err)
						}
						waits[w] = append(waits[w], time.Since(began))
					}
				})
			}
			waiting.Wait()
			b.StopTimer()
			all := slices.Sorted(slices.Values(slices.Concat(waits...)))
			for _, percentile := range []int{50, 99} {
				b.ReportMetric(float64(all[(len(all)-1)*percentile/100].Microseconds())/1e3, fmt.Sprintf("p%d-ms", percentile))
			}
		})
	}
}
