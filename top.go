package weir

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"time"

	"github.com/weir-counter/weir/internal/replication"
)

// MaxList is the longest answer of Top and Keys.
const MaxList = 10_000

// KeyCount is a key and its count.
type KeyCount struct {
	Key string
	Count
}

// String is the key and its count.
func (kc KeyCount) String() string { return kc.Key + " " + kc.Count.String() }

// Top answers with the n keys, 1 to MaxList, that have most hits in (at-w, at]
// by estimate, those equal in order of their names. With a prefix, only keys that
// begin with it. Keys without hits in the window and AllKeys are left out, and so
// are those of SeparatePrefix unless they are asked for. at is cut to a whole second.
//
// Cost: O(keys), one short lock for each key with the prefix, so that hits are
// not held up.
func (e *Engine) Top(at time.Time, w time.Duration, n int, prefix string) ([]KeyCount, error) {
	return e.side.TopIn(nil, at, w, n, prefix)
}

func (r *side) TopIn(in replication.PartitionSet, at time.Time, w time.Duration, n int, prefix string) ([]KeyCount, error) {
	e := r.engine
	seconds, err := wholeSeconds("window", w)
	if err != nil {
		return nil, err
	}
	if err := checkList("n", n); err != nil {
		return nil, err
	}
	best := topHeap{limit: n, listed: map[string]bool{}}
	held := e.keys.EachCount(in, prefix, at.Unix(), seconds, func(key string, c Count) {
		if c.Upper > 0 {
			best.offer(KeyCount{key, c})
		}
	})
	if !held {
		return nil, errNotHeld
	}
	h := e.horizon()
	for i, kc := range best.list {
		best.list[i].Count = h.limits(e.keys.WithEvicted(kc.Count, kc.Key, at.Unix()-seconds), at.Unix(), seconds)
	}
	slices.SortFunc(best.list, func(a, b KeyCount) int { return -compareCounts(a, b) })
	return best.list, nil
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
type topHeap struct {
	limit  int
	list   []KeyCount
	listed map[string]bool // a key that was deleted and hit meanwhile may be met twice
}

func (h *topHeap) Len() int           { return len(h.list) }
func (h *topHeap) Less(i, j int) bool { return compareCounts(h.list[i], h.list[j]) < 0 }
func (h *topHeap) Swap(i, j int)      { h.list[i], h.list[j] = h.list[j], h.list[i] }
func (h *topHeap) Push(x any)         { h.list = append(h.list, x.(KeyCount)) }
func (h *topHeap) Pop() any {
	last := h.list[len(h.list)-1]
	h.list = h.list[:len(h.list)-1]
	return last
}

func (h *topHeap) offer(kc KeyCount) {
	full := len(h.list) == h.limit
	if full && compareCounts(kc, h.list[0]) <= 0 || h.listed[kc.Key] {
		return
	}
	if full {
		delete(h.listed, heap.Pop(h).(KeyCount).Key)
	}
	h.listed[kc.Key] = true
	heap.Push(h, kc)
}
