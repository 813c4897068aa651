// Package concurrency has what goroutines share: a cached answer, pauses, periodic and parallel calls, and the queue of those that wait for a flush.
package concurrency

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Value keeps what was asked last. The zero Value has nothing yet. It is safe for many
// goroutines.
type Value[T any] struct {
	asking sync.Mutex
	last   atomic.Pointer[entry[T]]
}

type entry[T any] struct {
	value T
	asked time.Time
}

// Get returns the last answer if it is not older than maxAge. Else one of the callers asks again, and the others get the
// last answer. The age counts from before ask was called. Only before the first answer do all wait.
func (v *Value[T]) Get(maxAge time.Duration, ask func() T) T {
	last := v.last.Load()
	if last != nil && (time.Since(last.asked) < maxAge || !v.asking.TryLock()) {
		return last.value
	}
	if last == nil {
		v.asking.Lock()
	}
	defer v.asking.Unlock()
	asked := time.Now()
	value := ask()
	v.last.Store(&entry[T]{value, asked})
	return value
}

// Signal wakes a goroutine that waits for it, once however often it was raised before that.
type Signal chan struct{}

// NewSignal returns one that nobody has raised.
func NewSignal() Signal { return make(Signal, 1) }

// Raise does not wait. Of a nil Signal it does nothing.
func (s Signal) Raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Sleep returns nil after d, or the cause of ctx as soon as it is done.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// Every calls f each time d has passed, until ctx is done or f returns false.
func Every(ctx context.Context, d time.Duration, f func() bool) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !f() {
			return
		}
	}
}

// Repeat calls f at once, and each time d has passed, until ctx is done.
func Repeat(ctx context.Context, d time.Duration, f func()) {
	f()
	Every(ctx, d, func() bool {
		f()
		return true
	})
}

// Background runs f on a goroutine of its own. End has f's context end, and returns when f did.
func Background(ctx context.Context, f func(context.Context)) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { f(ctx) })
	return func() {
		stop()
		running.Wait()
	}
}

// Do calls f for 0 to n-1 on as many goroutines as there are processors,
// and returns the first error. All calls are made, and have ended.
func Do(n int, f func(i int) error) error {
	var first error
	var once sync.Once
	var wg sync.WaitGroup
	var next atomic.Int64
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if err := f(int(i)); err != nil {
					once.Do(func() { first = err })
				}
			}
		})
	}
	wg.Wait()
	return first
}
