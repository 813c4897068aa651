package concurrency

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

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
