package engine

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
)

// BenchmarkGather is what gathering costs: hits on a million Zipf keys, with and
// without a cut of all partitions every 100 ms, in turns. Two goroutines hit; the
// figure to look at is the processor time of a hit, for a shared machine's clock
// says little.
func BenchmarkGather(b *testing.B) {
	keys, picks := zipfKeys()
	for _, gather := range []bool{false, true} {
		b.Run(fmt.Sprint("cuts=", gather), func(b *testing.B) {
			e, err := New(Config{Memory: 8 << 30, Gather: gather})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			for _, key := range keys {
				e.Hit(key)
			}
			var c replication.Cut
			cutAll := func() (deltas int) {
				for i := range e.cfg.Partitions {
					e.Cut(i, &c, false)
					deltas += len(c.Deltas)
				}
				return deltas
			}
			if gather {
				cutAll()
			}
			stop, deltas := make(chan struct{}), 0
			var cutting, hitting sync.WaitGroup
			if gather {
				cutting.Go(func() {
					for ticker := time.NewTicker(100 * time.Millisecond); ; {
						select {
						case <-ticker.C:
							deltas += cutAll()
						case <-stop:
							deltas += cutAll()
							return
						}
					}
				})
			}
			b.ResetTimer()
			before := processorTime(b)
			for g := range 2 {
				hitting.Go(func() {
					for i := range b.N / 2 {
						e.Hit(keys[picks[(g<<20+i)&(1<<21-1)]])
					}
				})
			}
			hitting.Wait()
			close(stop)
			cutting.Wait()
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/hit")
			b.ReportMetric(float64(deltas)/float64(b.N), "deltas/hit")
		})
	}
}

// processorTime is what this process has used so far.
func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
