package main

import (
	"context"
	"testing"
	"time"

	"github.com/RussellLuo/slidingwindow"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/weir-counter/weir/limit"
	"golang.org/x/time/rate"
)

// epoch is where virtual time starts: a multiple of the period, so that limiters
// that cut time into pieces cut there.
var epoch = time.Unix(1_700_000_000, 0)

// exactLog remembers the last N admissions: what the others are held against.
func exactLog(*testing.T) limiter {
	var times [requests]time.Duration
	count := 0
	return func(at time.Duration) bool {
		oldest := &times[count%requests]
		if count >= requests && at-*oldest < period {
			return false
		}
		*oldest = at
		count++
		return true
	}
}

func weirLimit(algorithm limit.Algorithm) func(*testing.T) limiter {
	return func(t *testing.T) limiter {
		plan, err := limit.New(limit.Limit{N: requests, Per: period, Burst: requests, Algorithm: algorithm})
		if err != nil {
			t.Fatal(err)
		}
		state := new(limit.State)
		return func(at time.Duration) bool { return plan.Take(state, int64(at), 1).Allowed }
	}
}

func xTimeRate(*testing.T) limiter {
	l := rate.NewLimiter(rate.Every(period/requests), requests)
	return func(at time.Duration) bool { return l.AllowN(epoch.Add(at), 1) }
}

func slidingWindow(*testing.T) limiter {
	l, _ := slidingwindow.NewLimiter(period, requests, func() (slidingwindow.Window, slidingwindow.StopFunc) {
		return slidingwindow.NewLocalWindow()
	})
	return func(at time.Duration) bool { return l.AllowN(epoch.Add(at), 1) }
}

// throttledGCRA sets the clock of the library's store. Its MaxBurst is what may
// come beside the first request.
func throttledGCRA(t *testing.T) limiter {
	store, err := memstore.New(0)
	if err != nil {
		t.Fatal(err)
	}
	var now time.Time
	store.SetTimeNow(func() time.Time { return now })
	l, err := throttled.NewGCRARateLimiterCtx(throttled.WrapStoreWithContext(store),
		throttled.RateQuota{MaxRate: throttled.PerDuration(requests, period), MaxBurst: requests - 1})
	if err != nil {
		t.Fatal(err)
	}
	return func(at time.Duration) bool {
		now = epoch.Add(at)
		limited, _, err := l.RateLimitCtx(context.Background(), "key", 1)
		if err != nil {
			t.Fatal(err)
		}
		return !limited
	}
}
