package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weir-counter/weir/bench/traffic"
	"github.com/weir-counter/weir/internal/engine"
)

const (
	rounds = 3
	picked = 1 << 18 // hits of a round
	block  = 64      // keys of one call of Expect
)

// used is the processor time of this process so far.
func used() (time.Duration, error) {
	var usage syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), err
}

// cost returns the processor time of one operation in ns, as the median of the rounds. f does things operations in each
// round; rounds count from 0.
func cost(things int, f func(round int)) (float64, error) {
	var costs []float64
	for round := range rounds {
		before, err := used()
		if err != nil {
			return 0, err
		}
		f(round)
		after, err := used()
		if err != nil {
			return 0, err
		}
		costs = append(costs, float64(after-before)/float64(things))
	}
	slices.Sort(costs)
	return costs[rounds/2], nil
}

// filled returns an engine with n keys of one hit each, the bytes that each key takes, and keys in random order. The
// strings in picks share no memory with the engine.
func filled(n int) (e *engine.Engine, bytes float64, picks []string, err error) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if e, err = newEngine(); err != nil {
		return nil, 0, nil, err
	}
	var name []byte
	at := time.Unix(start, 0)
	for i := range n {
		name = traffic.AppendSparseKey(name[:0], i)
		if _, err := e.HitAt(at, string(name), 1); err != nil {
			return nil, 0, nil, err
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	r := rand.New(rand.NewPCG(20260101, uint64(n)))
	picks = make([]string, picked)
	for i := range picks {
		picks[i] = string(traffic.AppendSparseKey(nil, r.IntN(n)))
	}
	return e, float64(after.HeapAlloc-before.HeapAlloc) / float64(n), picks, nil
}

// keys is the table by number of keys.
func keys(b *strings.Builder, most int) error {
	b.WriteString("## More keys\n\nKeys of 20 characters, hit equally often in random order: the worst case for caches. Bytes are of a key with one hit. One goroutine.\n\n" +
		"| keys | a hit, ns | a hit in blocks of 64, ns | a count of 300 s, ns | bytes a key |\n|---:|---:|---:|---:|---:|\n")
	for n := 1; n <= most; n *= 10 {
		e, bytes, picks, err := filled(n)
		if err != nil {
			return err
		}
		single, err := cost(picked, func(round int) { hit(e, start+1+int64(round), picks) })
		if err != nil {
			return err
		}
		blocks, err := cost(picked, func(round int) {
			at, expected := time.Unix(start+100+int64(round), 0), make([]engine.Expected, 0, block)
			for some := range slices.Chunk(picks, block) {
				for _, key := range e.Keyspace().Expect(expected, some) {
					_, _ = e.HitExpected(at, key, 1) // all are keys, and none is late
				}
			}
		})
		if err != nil {
			return err
		}
		const counts = picked / 4
		count, err := cost(counts, func(round int) {
			at := time.Unix(start+200, 0)
			for _, key := range picks[round*counts : (round+1)*counts] {
				_, _ = e.CountAt(at, key, 300*time.Second) // all are keys and a window
			}
		})
		if err != nil {
			return err
		}
		memory := fmt.Sprintf("%.0f", bytes)
		if n < 1_000 {
			memory = "" // of the engine more than of the keys
		}
		fmt.Fprintf(b, "| %d | %.0f | %.0f | %.0f | %s |\n", n, single, blocks, count, memory)
		if err := e.Close(); err != nil {
			return err
		}
	}
	return nil
}

func hit(e *engine.Engine, second int64, keys []string) {
	at := time.Unix(second, 0)
	for _, key := range keys {
		_, _ = e.HitAt(at, key, 1) // all are keys, and none is late
	}
}

// goroutines is the table by number of goroutines.
func goroutines(b *strings.Builder, most int) error {
	n := min(most, 1_000_000)
	fmt.Fprintf(b, "\n## More goroutines\n\nHits of %d keys, and of one hot key, on %d processors.\n\n"+
		"| goroutines | a hit, ns | a hit of the hot key, ns |\n|---:|---:|---:|\n", n, runtime.NumCPU())
	engine, _, picks, err := filled(n)
	if err != nil {
		return err
	}
	hot := slices.Repeat([]string{"hot"}, 1<<16)
	second := int64(start)
	for workers := 1; workers <= 4; workers++ {
		share := func(keys []string) (float64, error) {
			return cost(workers*len(keys), func(int) {
				second++
				at := second
				var running sync.WaitGroup
				for range workers {
					running.Go(func() { hit(engine, at, keys) })
				}
				running.Wait()
			})
		}
		many, err := share(picks)
		if err != nil {
			return err
		}
		one, err := share(hot)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "| %d | %.0f | %.0f |\n", workers, many, one)
	}
	return engine.Close()
}

// windows is the table by length of window.
func windows(b *strings.Builder, _ int) error {
	b.WriteString("\n## Longer windows\n\nCounts of a key with a hit every hour for 31.7 years, then every second for a day. Each count ends at another second of the last minute.\n\n" +
		"| window, s | a count, ns |\n|---:|---:|\n")
	engine, err := newEngine()
	if err != nil {
		return err
	}
	const day, end = 86_400, int64(start)
	for at := end - 1_000_000_000 + 1; at < end-day; at += 3_600 {
		hit(engine, at, []string{"k"})
	}
	for at := end - day; at <= end; at++ {
		hit(engine, at, []string{"k"})
	}
	for _, seconds := range []int64{1, 300, day, 30 * day, 1_000_000_000} {
		window := time.Duration(seconds) * time.Second
		const counts = 1 << 16
		ns, err := cost(counts, func(int) {
			for i := range int64(counts) {
				_, _ = engine.CountAt(time.Unix(end-i%60, 0), "k", window)
			}
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "| %d | %.0f |\n", seconds, ns)
	}
	return engine.Close()
}
