// Package concurrency has what goroutines share: a cached answer, pauses, periodic and parallel calls, and the queue of those that wait for a flush.
package concurrency

import (
	"context"
	"errors"
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

// ErrQueueFull is how a group ends whose flush was not written for want of space.
var ErrQueueFull = errors.New("the data directory is at its size bound: raise --max-disk (MaxBytes)")

// Queue is the callers that wait for a flush. All that come before a flush begins are one group, and learn together how it ended.
// One flush is under way at a time; hits meanwhile gather in the engine, aggregated and bounded by its MaxWaiting.
//
// What was counted before Join is in the flush of the group that Join returns, or in an earlier one. A group ends once,
// also when no flush begins any more.
type Queue struct {
	kick  Signal      // someone waits: do not wait for the interval
	speak atomic.Bool // the next flush is written even if empty

	mu     sync.Mutex
	next   *Group // of callers that wait for the next flush to begin; nil: nobody waits
	ending error  // why no further flush will begin; nil: further ones will
}

// Group is the callers that wait for one flush. Err and Last may be read once Done is closed.
type Group struct {
	Done chan struct{}
	Err  error
	Last uint64 // message of the journal that has it, or what is before it

	Began, Ended time.Time // of the flush
	Traced       sync.Once // by the first who waited with a trace, which is Trace then
	Trace        any
}

// NewQueue returns one in which nobody waits.
func NewQueue() *Queue { return &Queue{kick: NewSignal()} }

// Kicked has a value when a flush is to begin at once.
func (q *Queue) Kicked() <-chan struct{} { return q.kick }

// Join enters the group of the next flush. Whatever was counted before is in
// that flush or an earlier one.
func (q *Queue) Join() *Group {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.next == nil {
		q.next = &Group{Done: make(chan struct{})}
		if q.ending != nil {
			q.next.End(q.ending)
			return q.next
		}
		q.Hurry()
	}
	return q.next
}

// JoinSpeaking is Join, and has the next flush written even if it is empty.
func (q *Queue) JoinSpeaking() *Group {
	q.speak.Store(true)
	return q.Join()
}

// Speaks tells the flush that begins whether it is written even if empty, once.
func (q *Queue) Speaks() bool { return q.speak.Swap(false) }

// Hurry begins the next flush at once, though nobody waits for it to end.
func (q *Queue) Hurry() {
	q.kick.Raise()
}

// Take is called when a flush begins; later callers of Join wait for the next. nil: nobody
// waits.
func (q *Queue) Take() *Group {
	q.mu.Lock()
	defer q.mu.Unlock()
	group := q.next
	q.next = nil
	return group
}

// Finish fails those who wait for another flush, now and later.
func (q *Queue) Finish(cause error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ending = cause
	q.next.End(cause)
}

// End ends the group, if there is one, with what became of its flush.
func (g *Group) End(err error) {
	if g != nil {
		g.Err = err
		close(g.Done)
	}
}
