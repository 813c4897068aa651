// Package limiters puts the keyed rate limiters of common libraries, and Weir's, behind one interface. Each key may
// have a number of requests per second.
package limiters

import (
	"context"
	"log"
	"time"

	"github.com/RussellLuo/slidingwindow"
	"github.com/puzpuzpuz/xsync/v4"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/limit"
	"golang.org/x/time/rate"
)

// Allow asks for one admission of a key, by the limiter's own clock.
type Allow func(key string) bool

// Design is one keyed limiter.
type Design struct {
	Name string
	New  func(requests uint64) Allow
}

// Keys bounds the memory of the designs that ask for a bound.
const Keys = 2_000_000

// Designs are Weir's algorithms, then the libraries.
func Designs() []Design {
	return []Design{
		{"weir-gcra", weirLimit(limit.GCRA)},
		{"weir-window", weirLimit(limit.Window)},
		{"weir-fixed", weirLimit(limit.Fixed)},
		{"xsync.Map+x-time-rate", xTimeRate},
		{"go-limiter", goLimiter},
		{"ulule-limiter", ulule},
		{"throttled", throttledGCRA},
		{"xsync.Map+slidingwindow", slidingWindow},
	}
}

func weirLimit(algorithm limit.Algorithm) func(uint64) Allow {
	return func(requests uint64) Allow {
		engine, err := weir.New(weir.Config{LimitMemory: 4 << 30})
		if err != nil {
			log.Fatal(err)
		}
		l, err := engine.Limit("bench", weir.Limit{N: requests, Per: time.Second, Algorithm: algorithm})
		if err != nil {
			log.Fatal(err)
		}
		return l.Allow
	}
}

// xTimeRate is the usual way to give each key a limiter of its own.
func xTimeRate(requests uint64) Allow {
	limiters := xsync.NewMap[string, *rate.Limiter]()
	return func(key string) bool {
		l, ok := limiters.Load(key)
		if !ok {
			l, _ = limiters.LoadOrStore(key, rate.NewLimiter(rate.Limit(requests), int(requests)))
		}
		return l.Allow()
	}
}

func goLimiter(requests uint64) Allow {
	store, err := memorystore.New(&memorystore.Config{Tokens: requests, Interval: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	return func(key string) bool {
		_, _, _, ok, err := store.Take(ctx, key)
		return ok && err == nil
	}
}

func ulule(requests uint64) Allow {
	l := limiter.New(memory.NewStore(), limiter.Rate{Period: time.Second, Limit: int64(requests)})
	ctx := context.Background()
	return func(key string) bool {
		state, err := l.Get(ctx, key)
		return err == nil && !state.Reached
	}
}

func throttledGCRA(requests uint64) Allow {
	store, err := memstore.NewCtx(Keys)
	if err != nil {
		log.Fatal(err)
	}
	l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate: throttled.PerSec(int(requests)), MaxBurst: int(requests) - 1,
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	return func(key string) bool {
		limited, _, err := l.RateLimitCtx(ctx, key, 1)
		return err == nil && !limited
	}
}

func slidingWindow(requests uint64) Allow {
	limiters := xsync.NewMap[string, *slidingwindow.Limiter]()
	return func(key string) bool {
		l, ok := limiters.Load(key)
		if !ok {
			made, _ := slidingwindow.NewLimiter(time.Second, int64(requests), func() (slidingwindow.Window, slidingwindow.StopFunc) {
				return slidingwindow.NewLocalWindow()
			})
			l, _ = limiters.LoadOrStore(key, made)
		}
		return l.Allow()
	}
}
