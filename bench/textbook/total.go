package textbook

import "sync"

// Total is a ring with a running total of the whole window. Seconds that leave
// the window are taken off the total when time moves on. A late hit finds its
// slot.
//
// Cost: Hit and Count over the whole window amortised O(1); Count over a part
// of it O(seconds).
type Total struct {
	mu  sync.Mutex
	sum running
}

// NewTotal returns a Total for windows of up to window seconds.
func NewTotal(window int64) *Total { return &Total{sum: newRunning(window)} }

// Hit implements Counter.
func (t *Total) Hit(at int64) {
	t.mu.Lock()
	t.sum.hit(at)
	t.mu.Unlock()
}

// Count implements Counter.
func (t *Total) Count(at, seconds int64) int64 {
	t.mu.Lock()
	sum := t.sum.count(at, seconds)
	t.mu.Unlock()
	return sum
}

// running is Total without its lock.
type running struct {
	hits   []int64 // of the seconds newest-len(hits)+1 .. newest, at second mod len(hits)
	newest int64   // the latest second hit or asked for
	place  int64   // newest mod len(hits)
	total  int64   // the sum of hits
}

func newRunning(window int64) running { return running{hits: make([]int64, window)} }

func (r *running) hit(at int64) {
	switch window := int64(len(r.hits)); {
	case at == r.newest:
		r.hits[r.place]++
	case at > r.newest:
		r.advance(at)
		r.hits[r.place]++
	case at > r.newest-window:
		r.hits[at%window]++
	default:
		return // older than the window
	}
	r.total++
}

func (r *running) count(at, seconds int64) int64 {
	if at > r.newest {
		r.advance(at)
	}
	if seconds >= int64(len(r.hits)) {
		return r.total
	}
	var sum int64
	for place := r.place; seconds > 0; seconds-- {
		sum += r.hits[place]
		if place--; place < 0 {
			place += int64(len(r.hits))
		}
	}
	return sum
}

// advance empties the slots between the newest second and at.
func (r *running) advance(at int64) {
	window := int64(len(r.hits))
	if at-r.newest >= window {
		clear(r.hits)
		r.newest, r.place, r.total = at, at%window, 0
		return
	}
	for ; r.newest < at; r.newest++ {
		if r.place++; r.place == window {
			r.place = 0
		}
		r.total -= r.hits[r.place]
		r.hits[r.place] = 0
	}
}
