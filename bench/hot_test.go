package bench

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/paulbellamy/ratecounter"
	"github.com/puzpuzpuz/xsync/v4"
	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/bench/textbook"
)

// BenchmarkHot is a hit on one key, at an explicit time that moves on every
// 65536 hits. Every design has its own loop, so that none pays for a dynamic
// call; a share's time is made once for all its hits.
func BenchmarkHot(b *testing.B) {
	for _, design := range []struct {
		name string
		make func(b *testing.B) share
	}{
		{"atomic.Int64", hotAtomic},
		{"weir.Counter.HitAt", hotWeirCounterAt},
		{"weir.Counter.Hit", hotWeirCounter},
		{"weir.Engine.HitAt", hotWeirEngineAt},
		{"weir.Engine.Hit", hotWeirEngine},
		{"deque", hotDeque},
		{"ring", hotRing},
		{"total", hotTotal},
		{"cached", hotCached},
		{"tiers", hotTiers},
		{"seconds", hotSeconds},
		{"xsync.Counter", hotXsync},
		{"VictoriaMetrics.Counter", hotVictoriaMetrics},
		{"ratecounter", hotRateCounter},
	} {
		b.Run("design="+design.name, func(b *testing.B) {
			forThreads(b, func(b *testing.B, goroutines int) {
				runShares(b, goroutines, 1<<16, design.make(b))
			})
		})
	}
}

func hotAtomic(*testing.B) share {
	counter := new(struct {
		_    [128]byte // alone on its cache lines
		hits atomic.Int64
		_    [128]byte
	})
	return func(_ int64, _, n int) {
		for range n {
			counter.hits.Add(1)
		}
	}
}

func hotWeirCounterAt(*testing.B) share {
	counter := new(weir.Counter)
	return func(second int64, _, n int) {
		at := time.Unix(second, 0)
		for range n {
			counter.HitAt(at, 1)
		}
	}
}

func hotWeirCounter(*testing.B) share {
	counter := new(weir.Counter)
	return func(_ int64, _, n int) {
		for range n {
			counter.Hit()
		}
	}
}

func hotWeirEngineAt(b *testing.B) share {
	engine := newEngine(b, weir.Config{Clock: weir.EventClock})
	return func(second int64, _, n int) {
		at := time.Unix(second, 0)
		for range n {
			engine.HitAt(at, "hot", 1)
		}
	}
}

func hotWeirEngine(b *testing.B) share {
	engine := newEngine(b, weir.Config{})
	return func(_ int64, _, n int) {
		for range n {
			engine.Hit("hot")
		}
	}
}

func hotDeque(*testing.B) share {
	deque := textbook.NewDeque(300)
	return func(second int64, _, n int) {
		for range n {
			deque.Hit(second)
		}
	}
}

func hotRing(*testing.B) share {
	ring := textbook.NewRing(300)
	return func(second int64, _, n int) {
		for range n {
			ring.Hit(second)
		}
	}
}

func hotTotal(*testing.B) share {
	total := textbook.NewTotal(300)
	return func(second int64, _, n int) {
		for range n {
			total.Hit(second)
		}
	}
}

func hotCached(*testing.B) share {
	cached := textbook.NewCached(300)
	return func(second int64, _, n int) {
		for range n {
			cached.Hit(second)
		}
	}
}

func hotTiers(*testing.B) share {
	tiers := textbook.NewTiers()
	return func(second int64, _, n int) {
		for range n {
			tiers.Hit(second)
		}
	}
}

func hotSeconds(*testing.B) share {
	seconds := textbook.NewSeconds(300)
	return func(second int64, _, n int) {
		for range n {
			seconds.Hit(second)
		}
	}
}

func hotXsync(*testing.B) share {
	counter := xsync.NewCounter()
	return func(_ int64, _, n int) {
		for range n {
			counter.Inc()
		}
	}
}

func hotVictoriaMetrics(*testing.B) share {
	counter := metrics.NewSet().NewCounter("hits")
	return func(_ int64, _, n int) {
		for range n {
			counter.Inc()
		}
	}
}

func hotRateCounter(*testing.B) share {
	counter := ratecounter.NewRateCounter(300 * time.Second)
	return func(_ int64, _, n int) {
		for range n {
			counter.Incr(1)
		}
	}
}

// newEngine returns an engine whose memory suffices for all hits. A benchmark fails if the
// engine refused or evicted any of its hits.
func newEngine(b *testing.B, cfg weir.Config) *weir.Engine {
	cfg.Memory = 8 << 30
	engine, err := weir.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if s := engine.Stats(); s.TooLate+s.TooFarAhead+s.EvictedHits > 0 {
			b.Errorf("hits lost: %d too late, %d too far ahead, %d evicted", s.TooLate, s.TooFarAhead, s.EvictedHits)
		}
		if err := engine.Close(); err != nil {
			b.Error(err)
		}
	})
	return engine
}
