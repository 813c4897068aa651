package main

import (
	"context"
	"testing"
	"time"

	"github.com/sethvargo/go-limiter/memorystore"
	ulule "github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
)

// These libraries look at the time themselves: what asks them has to wait.

// ululeLimiter has no goroutine that removes old keys: it would outlive the test.
func ululeLimiter(t *testing.T) (limiter, clock) {
	store := memory.NewStoreWithOptions(ulule.StoreOptions{Prefix: "adversary"})
	l := ulule.New(store, ulule.Rate{Period: period, Limit: requests})
	return waiting(func() bool {
		answer, err := l.Get(context.Background(), "key")
		if err != nil {
			t.Fatal(err)
		}
		return !answer.Reached
	})
}

// goLimiter is the one that virtual time does not reach: it takes the time from
// the runtime by go:linkname, past testing/synctest.
func goLimiter(t *testing.T) (limiter, clock) {
	store, err := memorystore.New(&memorystore.Config{Tokens: requests, Interval: realPeriod})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close(context.Background()) })
	return waiting(func() bool {
		_, _, _, ok, err := store.Take(context.Background(), "key")
		if err != nil {
			t.Fatal(err)
		}
		return ok
	})
}

// waiting makes a limiter that asks when its clock says so.
func waiting(allow func() bool) (limiter, clock) {
	start := time.Now()
	return func(time.Duration) bool { return allow() }, func(at time.Duration) time.Duration {
		time.Sleep(time.Until(start.Add(at)))
		return time.Since(start)
	}
}
