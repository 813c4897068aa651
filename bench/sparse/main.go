// Command sparse counts the hits of ten million sparse keys in one engine, as `weir serve` would hold them. It prints
// the resident memory of the process in the format of Go benchmarks. It fails if the engine has lost any of the hits.
package main

import (
	"flag"
	"fmt"
	"log"
	"runtime/debug"
	"sync"
	"time"
	"unsafe"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/bench/proc"
	"github.com/weir-counter/weir/bench/traffic"
)

const (
	start      = 1_700_000_000
	goroutines = 2
)

func main() {
	log.SetFlags(0)
	keys := flag.Int("keys", 10_000_000, "number of keys")
	budget := flag.Int64("memory", 1280<<20, "memory budget of the engine, bytes: weir serve --memory")
	flag.Parse()

	// As weir serve does, so that the default budget has a limit of 2 GiB.
	debug.SetMemoryLimit(*budget + *budget/2 + 128<<20)
	engine, err := weir.New(weir.Config{Clock: weir.EventClock, Memory: *budget})
	if err != nil {
		log.Fatal(err)
	}

	began := time.Now()
	fill(engine, *keys)
	took := time.Since(began)
	if err := verify(engine, *keys); err != nil {
		log.Fatal(err)
	}
	resident, peak, err := proc.Resident()
	if err != nil {
		log.Fatal(err)
	}
	hits := *keys * traffic.SparseHits
	fmt.Printf("BenchmarkTenMillion/keys=%d %d %.1f ns/op %d resident-bytes %d peak-bytes %d engine-bytes\n",
		*keys, hits, float64(took.Nanoseconds())/float64(hits), resident, peak, engine.Stats().Bytes)
	if err := engine.Close(); err != nil {
		log.Fatal(err)
	}
}

// fill brings each key its next hit, then the next, as the day goes by.
func fill(engine *weir.Engine, keys int) {
	for hit := range traffic.SparseHits {
		var running sync.WaitGroup
		for g := range goroutines {
			running.Go(func() {
				var key []byte
				for j := g; j < keys; j += goroutines {
					i, second := traffic.SparseHit(keys, hit, j)
					key = traffic.AppendSparseKey(key[:0], i)
					// HitAt does not keep the key, so its bytes may be used again.
					name := unsafe.String(unsafe.SliceData(key), len(key))
					if _, err := engine.HitAt(time.Unix(start+second, 0), name, 1); err != nil {
						log.Fatal(err)
					}
				}
			})
		}
		running.Wait()
	}
}

func verify(engine *weir.Engine, keys int) error {
	s := engine.Stats()
	if s.Keys != keys || s.EvictedKeys > 0 || s.Hits != uint64(keys*traffic.SparseHits) {
		return fmt.Errorf("%d keys, %d evicted, %d hits: want %d keys with %d hits each: raise -memory",
			s.Keys, s.EvictedKeys, s.Hits, keys, traffic.SparseHits)
	}
	for i := 0; i < keys; i += 1 + keys/1000 {
		key := string(traffic.AppendSparseKey(nil, i))
		count, err := engine.CountAt(time.Unix(start+traffic.Day-1, 0), key, traffic.Day*time.Second)
		if err != nil {
			return err
		}
		if !count.Exact() || count.Lower != traffic.SparseHits {
			return fmt.Errorf("key %s has %+v hits, want %d", key, count, traffic.SparseHits)
		}
	}
	return nil
}
