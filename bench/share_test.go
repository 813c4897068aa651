// Package bench has the Go benchmarks of Weir, the textbook designs and
// today's libraries side by side. `go run ./report` runs them and writes
// docs/benchmarks.md.
package bench

import (
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	startSecond = 1_700_000_000
	shareHits   = 1 << 10 // hits that a goroutine takes at a time
)

// now is the second at which the next run starts: time does not go back from
// one run to the next, since some designs live on.
var now int64 = startSecond

// share counts hits number first to first+n-1, all in one second.
type share func(second int64, first, n int)

// runShares counts b.N hits with a number of goroutines, and moves time on by
// a second every hitsPerSecond hits. The goroutines take their shares from one
// place, so their clocks agree as those of one machine do: at the turn of a
// second, some hits come late by one.
func runShares(b *testing.B, goroutines, hitsPerSecond int, hit share) {
	var taken atomic.Int64
	var running sync.WaitGroup
	start := now
	now += int64(b.N/hitsPerSecond) + 1
	b.ResetTimer()
	used, began := processorTime(b), time.Now()
	for range goroutines {
		running.Go(func() {
			for {
				first := int(taken.Add(shareHits)) - shareHits
				if first >= b.N {
					return
				}
				hit(start+int64(first/hitsPerSecond), first, min(shareHits, b.N-first))
			}
		})
	}
	running.Wait()
	b.ReportMetric((processorTime(b)-used).Seconds()/time.Since(began).Seconds(), "processors")
}

// processorTime is what this process has used of it so far. Two goroutines
// that had only one processor to share, because another program was running,
// would not have been in each other's way: the report tells.
func processorTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// forThreads runs a benchmark with one goroutine and with two.
func forThreads(b *testing.B, run func(b *testing.B, goroutines int)) {
	for _, goroutines := range []int{1, 2} {
		b.Run("goroutines="+strconv.Itoa(goroutines), func(b *testing.B) { run(b, goroutines) })
	}
}
