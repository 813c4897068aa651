package engine

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var benchStart = time.Unix(1_700_000_000, 0)

func benchEngine(b *testing.B) *Engine {
	e, err := New(Config{Clock: EventClock, Memory: 8 << 30})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { e.Close() })
	return e
}

func BenchmarkAtomicAdd(b *testing.B) {
	var n atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			n.Add(1)
		}
	})
}

func BenchmarkCounterHitAt(b *testing.B) {
	var c Counter
	b.RunParallel(func(pb *testing.PB) {
		at := benchStart
		for i := 1; pb.Next(); i++ {
			if i&(1<<16-1) == 0 {
				at = at.Add(time.Second)
			}
			c.HitAt(at, 1)
		}
	})
}

func BenchmarkCounterHit(b *testing.B) {
	var c Counter
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c.Hit()
		}
	})
}

func BenchmarkCounterCountAt(b *testing.B) {
	var c Counter
	for i := range 7 * 86400 {
		c.HitAt(benchStart.Add(time.Duration(i)*time.Second), 1)
	}
	end := benchStart.Add(7 * 86400 * time.Second)
	for _, w := range []time.Duration{300 * time.Second, 7 * 86400 * time.Second, MaxWindow} {
		b.Run(w.String(), func(b *testing.B) {
			for b.Loop() {
				c.CountAt(end, w)
			}
		})
	}
}

func BenchmarkEngineHotKey(b *testing.B) {
	e := benchEngine(b)
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			e.HitAt(benchStart.Add(time.Duration(i>>16)*time.Second), "hot", 1)
		}
	})
}

// zipfKeys is a million keys and a fixed sequence of picks, Zipf 1.1.
var zipfKeys = sync.OnceValues(func() (keys []string, picks []uint32) {
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 1_000_000 {
		keys = append(keys, fmt.Sprintf("user:%07d", i))
	}
	r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	zipf := rand.NewZipf(r, 1.1, 1, uint64(len(keys)-1))
	for range 1 << 21 {
		picks = append(picks, uint32(zipf.Uint64()))
	}
	return keys, picks
})

func BenchmarkEngineKeyed(b *testing.B) {
	e := benchEngine(b)
	keys, picks := zipfKeys()
	for _, key := range keys {
		e.HitAt(benchStart, key, 1)
	}
	var start atomic.Uint32
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := start.Add(1 << 20); pb.Next(); i++ {
			e.HitAt(benchStart, keys[picks[i&(1<<21-1)]], 1)
		}
	})
}

func BenchmarkMapFloor(b *testing.B) {
	var m sync.Map
	keys, picks := zipfKeys()
	for _, key := range keys {
		m.Store(key, new(atomic.Int64))
	}
	var start atomic.Uint32
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := start.Add(1 << 20); pb.Next(); i++ {
			n, _ := m.Load(keys[picks[i&(1<<21-1)]])
			n.(*atomic.Int64).Add(1)
		}
	})
}

func BenchmarkEngineTop(b *testing.B) {
	e := benchEngine(b)
	keys, _ := zipfKeys()
	for i, key := range keys {
		e.HitAt(benchStart, key, uint64(i+1))
	}
	for b.Loop() {
		e.Top(benchStart, 5*time.Minute, 10, "")
	}
}
