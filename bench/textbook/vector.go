package textbook

import "sync"

// Vector appends every hit's timestamp and never removes one. A count looks
// for the first timestamp within the window, so a late hit hides or exposes
// its neighbors.
//
// Cost: Hit amortized O(1); Count and memory O(hits of all time).
type Vector struct {
	mu    sync.Mutex
	times []int64
}

// NewVector returns a Vector.
func NewVector() *Vector { return new(Vector) }

// Hit implements Counter.
func (v *Vector) Hit(at int64) {
	v.mu.Lock()
	v.times = append(v.times, at)
	v.mu.Unlock()
}

// Count implements Counter.
func (v *Vector) Count(at, seconds int64) int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, t := range v.times {
		if t > at-seconds {
			return int64(len(v.times) - i)
		}
	}
	return 0
}

// Queue appends every hit's timestamp, and a count removes those at the front
// that have left the window. It answers for its own window alone.
//
// Cost: Hit amortized O(1); Count O(hits that have expired); memory O(hits in the window).
type Queue struct {
	mu     sync.Mutex
	window int64
	times  []int64
}

// NewQueue returns a Queue for the given window.
func NewQueue(window int64) *Queue { return &Queue{window: window} }

// Hit implements Counter.
func (q *Queue) Hit(at int64) {
	q.mu.Lock()
	q.times = append(q.times, at)
	q.mu.Unlock()
}

// Count implements Counter for the queue's own window.
func (q *Queue) Count(at, _ int64) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.times) > 0 && at-q.times[0] >= q.window {
		q.times = q.times[1:]
	}
	return int64(len(q.times))
}
