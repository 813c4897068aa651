package bench

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/puzpuzpuz/xsync/v4"
	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/bench/textbook"
	"github.com/weir-counter/weir/bench/traffic"
	internalengine "github.com/weir-counter/weir/internal/engine"
)

const (
	keyedKeys  = 1_000_000
	keyedPicks = 1 << 22
)

var (
	keys  = sync.OnceValue(func() []string { return traffic.Keys(keyedKeys) })
	picks = sync.OnceValue(func() []uint32 { return traffic.Picks(keyedPicks, keyedKeys) })
)

// BenchmarkKeyed is a hit on one of a million keys that all exist, picked
// after Zipf's law. A map with a counter of all time for each key is the floor.
// The keys that are looked up are not the memory that the maps hold, as when
// they come from a request.
func BenchmarkKeyed(b *testing.B) {
	for _, design := range []struct {
		name          string
		hitsPerSecond int
		make          func(b *testing.B) share
	}{
		{"xsync.Map+atomic.Int64", 1 << 20, keyedFloor},
		{"weir.Engine.HitAt", 1 << 20, keyedWeirAt},
		{"weir.Engine.HitAt-64k-hits-a-second", 1 << 16, keyedWeirAt},
		{"weir.Engine.Hit", 1 << 20, keyedWeir},
		{"weir.Engine.HitAt-blocks", 1 << 20, keyedWeirBlocks},
		{"RWMutex+map+deque", 1 << 20, keyedMapDeque},
		{"xsync.Map+deque", 1 << 20, keyedXsyncDeque},
	} {
		b.Run("design="+design.name, func(b *testing.B) {
			hit := design.make(b)
			runtime.GC() // so that none falls into the measurement
			forThreads(b, func(b *testing.B, goroutines int) {
				runShares(b, goroutines, design.hitsPerSecond, hit)
			})
		})
	}
}

func keyedFloor(*testing.B) share {
	counters := xsync.NewMap[string, *atomic.Int64]()
	for _, key := range keys() {
		counters.Store(strings.Clone(key), new(atomic.Int64))
	}
	keys, picks := keys(), picks()
	return func(_ int64, first, n int) {
		for i := first; i < first+n; i++ {
			key := keys[picks[i%keyedPicks]]
			counter, ok := counters.Load(key)
			if !ok {
				counter, _ = counters.LoadOrStore(key, new(atomic.Int64))
			}
			counter.Add(1)
		}
	}
}

func keyedWeirAt(b *testing.B) share {
	engine := newEngine(b, weir.Config{Clock: weir.EventClock})
	for _, key := range keys() {
		engine.HitAt(time.Unix(now, 0), key, 1)
	}
	keys, picks := keys(), picks()
	return func(second int64, first, n int) {
		at := time.Unix(second, 0)
		for i := first; i < first+n; i++ {
			engine.HitAt(at, keys[picks[i%keyedPicks]], 1)
		}
	}
}

func keyedWeir(b *testing.B) share {
	engine := newEngine(b, weir.Config{})
	for _, key := range keys() {
		engine.Hit(key)
	}
	keys, picks := keys(), picks()
	return func(_ int64, first, n int) {
		for i := first; i < first+n; i++ {
			engine.Hit(keys[picks[i%keyedPicks]])
		}
	}
}

// keyedWeirBlocks are hits that come many at a time, as in a request.
func keyedWeirBlocks(b *testing.B) share {
	engine := newEngine(b, weir.Config{Clock: weir.EventClock})
	for _, key := range keys() {
		engine.HitAt(time.Unix(now, 0), key, 1)
	}
	inner := (*internalengine.Engine)(engine) // Expect is for servers
	keys, picks := keys(), picks()
	return func(second int64, first, n int) {
		at := time.Unix(second, 0)
		var names [64]string
		var expected [64]internalengine.Expected
		for ; n > 0; first, n = first+len(names), n-len(names) {
			block := names[:min(n, len(names))]
			for i := range block {
				block[i] = keys[picks[(first+i)%keyedPicks]]
			}
			for _, key := range inner.Keyspace().Expect(expected[:0], block) {
				inner.HitExpected(at, key, 1)
			}
		}
	}
}

func keyedMapDeque(*testing.B) share {
	var mu sync.RWMutex
	counters := make(map[string]*textbook.Deque)
	for _, key := range keys() {
		counters[strings.Clone(key)] = textbook.NewDeque(300)
	}
	keys, picks := keys(), picks()
	return func(second int64, first, n int) {
		for i := first; i < first+n; i++ {
			mu.RLock()
			counter := counters[keys[picks[i%keyedPicks]]]
			mu.RUnlock()
			counter.Hit(second)
		}
	}
}

func keyedXsyncDeque(*testing.B) share {
	counters := xsync.NewMap[string, *textbook.Deque]()
	for _, key := range keys() {
		counters.Store(strings.Clone(key), textbook.NewDeque(300))
	}
	keys, picks := keys(), picks()
	return func(second int64, first, n int) {
		for i := first; i < first+n; i++ {
			counter, _ := counters.Load(keys[picks[i%keyedPicks]])
			counter.Hit(second)
		}
	}
}
