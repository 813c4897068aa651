package textbook

import "sync"

// Deque is a queue with one (second, hits) pair for each second that has any.
// A late hit is counted in the newest second, since the queue must stay sorted.
//
// Cost: Hit amortised O(1); Count O(seconds with hits).
type Deque struct {
	mu     sync.Mutex
	window int64
	pairs  []slot // a circle; its length is a power of two
	head   int    // place of the oldest pair
	size   int    // number of pairs, at most window
}

// NewDeque returns a Deque for windows of up to window seconds.
func NewDeque(window int64) *Deque {
	return &Deque{window: window, pairs: make([]slot, 1)}
}

// Hit implements Counter.
func (d *Deque) Hit(at int64) {
	d.mu.Lock()
	if newest := d.pair(d.size - 1); d.size > 0 && at <= newest.start {
		newest.hits++
	} else {
		d.push(at)
	}
	d.mu.Unlock()
}

// Count implements Counter.
func (d *Deque) Count(at, seconds int64) int64 {
	d.mu.Lock()
	d.prune(at - d.window)
	var sum int64
	for i := d.size - 1; i >= 0; i-- {
		pair := d.pair(i)
		if pair.start <= at-seconds {
			break
		}
		sum += pair.hits
	}
	d.mu.Unlock()
	return sum
}

func (d *Deque) pair(i int) *slot { return &d.pairs[(d.head+i)&(len(d.pairs)-1)] }

func (d *Deque) push(at int64) {
	d.prune(at - d.window)
	if d.size == len(d.pairs) {
		grown := make([]slot, 2*len(d.pairs))
		for i := range d.size {
			grown[i] = *d.pair(i)
		}
		d.pairs, d.head = grown, 0
	}
	d.size++
	*d.pair(d.size - 1) = slot{at, 1}
}

// prune drops the pairs at or before the second.
func (d *Deque) prune(second int64) {
	for d.size > 0 && d.pair(0).start <= second {
		d.head++
		d.size--
	}
}
