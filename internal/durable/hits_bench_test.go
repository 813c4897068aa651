package durable

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
)

// BenchmarkHits is what the journal costs: hits on a million Zipf keys, without
// and with it. Two goroutines hit as fast as they can; the figure to look at is
// the processor time of a hit, for a shared machine's clock says little.
func BenchmarkHits(b *testing.B) {
	keys := make([]string, 1_000_000)
	for i := range keys {
		keys[i] = fmt.Sprintf("user:%07d", i)
	}
	r := rand.New(rand.NewPCG(1, 1))
	r.Shuffle(len(keys), func(i, k int) { keys[i], keys[k] = keys[k], keys[i] })
	zipf := rand.NewZipf(r, 1.1, 1, uint64(len(keys)-1))
	picks := make([]uint32, 1<<21)
	for i := range picks {
		picks[i] = uint32(zipf.Uint64())
	}
	for _, journaled := range []bool{false, true} {
		b.Run(fmt.Sprint("journal=", journaled), func(b *testing.B) {
			e, err := engine.New(engine.Config{Memory: 2 << 30, Gather: journaled})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			var j *Journal
			if journaled {
				if j, err = Open(b.Context(), e, Config{Dir: filepath.Join(b.TempDir(), "data")}, nil); err != nil {
					b.Fatal(err)
				}
			}
			for _, key := range keys {
				if err := e.Hit(key); err != nil {
					b.Fatal(err)
				}
			}
			if journaled {
				if err := j.Sync(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ResetTimer()
			before := processorTime(b)
			var hitting sync.WaitGroup
			for g := range 2 {
				hitting.Go(func() {
					for i := range b.N / 2 {
						if err := e.Hit(keys[picks[(g<<20+i)&(1<<21-1)]]); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			hitting.Wait()
			if journaled {
				if err := j.Sync(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/hit")
			b.StopTimer()
			if journaled {
				b.ReportMetric(float64(j.Stats().Bytes)/float64(b.N), "bytes/hit")
				if err := j.Close(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// processorTime is what this process has used so far.
func processorTime(t testing.TB) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
