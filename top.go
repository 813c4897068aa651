package weir

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"time"
)

// MaxList is the longest answer of Top and Keys.
const MaxList = 10_000

// KeyCount is a key and its count.
type KeyCount struct {
	Key string
	Count
}

// Top answers with the n keys, 1 to MaxList, that have most hits in (at-w, at]
// by estimate, those equal in order of their names. With a prefix, only keys that
// begin with it. Keys without hits in the window and AllKeys are left out. at is
// cut to a whole second.
//
// Cost: O(keys), one short lock for each key that was hit within the window, so
// that hits are not held up.
func (e *Engine) Top(at time.Time, w time.Duration, n int, prefix string) ([]KeyCount, error) {
	seconds, err := wholeSeconds("window", w)
	if err != nil {
		return nil, err
	}
	if err := checkList("n", n); err != nil {
		return nil, err
	}
	best := make(topHeap, 0, min(n, 128))
	for i := range e.partitions {
		p := &e.partitions[i]
		p.table.Load().eachWith(prefix, func(en *entry) {
			p.mu.Lock()
			c := p.count(e, en, at.Unix(), seconds)
			p.mu.Unlock()
			if c.Upper > 0 {
				best.offer(KeyCount{en.key, c}, n)
			}
		})
	}
	for i := range best {
		best[i].Count = e.partition(best[i].Key).withForgotten(best[i].Count, best[i].Key, at.Unix()-seconds)
	}
	slices.SortFunc(best, func(a, b KeyCount) int { return -compareCounts(a, b) })
	return best, nil
}

func checkList(field string, n int) error {
	if n < 1 || n > MaxList {
		return &Error{CodeInvalidRange, field, fmt.Sprintf("%s of %d: must be 1 to %d", field, n, MaxList)}
	}
	return nil
}

// compareCounts orders by estimate, and the later of two names as the lesser.
func compareCounts(a, b KeyCount) int {
	return cmp.Or(cmp.Compare(a.Estimate, b.Estimate), cmp.Compare(b.Key, a.Key))
}

// topHeap keeps the greatest, the least of them at its root.
type topHeap []KeyCount

func (h topHeap) Len() int           { return len(h) }
func (h topHeap) Less(i, j int) bool { return compareCounts(h[i], h[j]) < 0 }
func (h topHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *topHeap) Push(x any)        { *h = append(*h, x.(KeyCount)) }
func (h *topHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func (h *topHeap) offer(kc KeyCount, n int) {
	switch {
	case len(*h) < n:
		heap.Push(h, kc)
	case compareCounts((*h)[0], kc) < 0:
		(*h)[0] = kc
		heap.Fix(h, 0)
	}
}
