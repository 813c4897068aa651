package engine

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/replication"
)

// Count answers how many hits the key has in the last w, up to Now. A key that was never hit has none. AllKeys counts
// all hits, including hits of evicted and deleted keys.
//
// Where keys were evicted, Upper includes what a key may have had before. Where
// the window reaches back beyond the retention, no upper bound is known: older
// hits are refused, and those that were taken may have left.
func (e *Engine) Count(key string, w time.Duration) (Count, error) {
	seconds, err := e.checkRead(key, w)
	if err != nil {
		return Count{}, err
	}
	var c Count
	held := e.keys.WhileHeld(nil, key, func() {
		h := e.horizon()
		at := h.second + h.retention
		c = h.limits(e.countIn(nil, key, at, seconds), at, seconds)
	})
	return c, ifHeld(held)
}

// CountAt answers how many hits the key has in (at-w, at]; at may lie in the
// past. If at has a fraction of a second, the two seconds that the window cuts
// are in doubt, and the bounds say so.
//
// Cost: a look-up, the partition's lock, and O(1), or up to some 200 pairs for a
// sparse key.
func (e *Engine) CountAt(at time.Time, key string, w time.Duration) (Count, error) {
	return e.CountIn(nil, at, key, w)
}

// CountIn is Engine.CountAt; of AllKeys, it counts the hits of some partitions that
// a cut has.
func (e *Engine) CountIn(in replication.PartitionSet, at time.Time, key string, w time.Duration) (Count, error) {
	seconds, err := e.checkRead(key, w)
	if err != nil {
		return Count{}, err
	}
	var c Count
	held := e.keys.WhileHeld(in, key, func() {
		h := e.horizon()
		c = countAt(at, seconds, func(at, seconds int64) Count { return h.limits(e.countIn(in, key, at, seconds), at, seconds) })
	})
	return c, ifHeld(held)
}

// Rate is Count per second of w.
func (e *Engine) Rate(key string, w time.Duration) (Rate, error) {
	c, err := e.Count(key, w)
	return c.Per(int64(w / time.Second)), err
}

// RateAt is CountAt per second of w.
func (e *Engine) RateAt(at time.Time, key string, w time.Duration) (Rate, error) {
	c, err := e.CountAt(at, key, w)
	return c.Per(int64(w / time.Second)), err
}

func (e *Engine) checkRead(key string, w time.Duration) (seconds int64, err error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	return wholeSeconds("window", w)
}

// countIn answers for a valid key and a window of whole seconds, 0 included; of AllKeys,
// for the hits of some partitions.
func (e *Engine) countIn(in replication.PartitionSet, key string, at, seconds int64) Count {
	if key == AllKeys && (in != nil || !e.keys.AllHeld()) {
		return e.keys.CountAll(in, at, seconds)
	}
	return e.count(key, at, seconds)
}

func (e *Engine) count(key string, at, seconds int64) Count {
	if key == AllKeys {
		all := e.total.count(at, seconds).Plus(Count{Upper: e.evicted.all.Since(at - seconds)})
		return e.keys.AllInDoubt(all, at, seconds)
	}
	return e.keys.Count(key, at, seconds)
}

// lastAnswer keeps what the last read of a window found in the folded hits. Frequent reads ask for the same window, and
// the folded hits change only when the second does or a late hit comes. It lacks the live hits, so a reader always adds
// the present live hits.
//
// It is a sequence lock. Each change of the window or the answer begins with another version. A reader that finds
// another version than it began with discards what it has read. An answer belongs to one version only. So there is none
// from the beginning of a change until the next answer is kept. change, missed and set are called under the counter's
// lock.
type lastAnswer struct {
	version, of            atomic.Uint64 // of: that the answer is of
	at, seconds            atomic.Int64  // 0 seconds: no answer
	lower, estimate, upper atomic.Uint64

	missedAt, missedSeconds int64 // the last window that was not there; guarded by the counter's lock
}

// get returns the answer for the window, if it is the last one asked for. It
// holds if still(version) says so after the caller has read the live hits.
func (l *lastAnswer) get(at, seconds int64) (folded Count, version uint64, ok bool) {
	version = l.version.Load()
	if l.of.Load() != version || l.at.Load() != at || l.seconds.Load() != seconds {
		return Count{}, 0, false
	}
	return Count{Lower: l.lower.Load(), Estimate: l.estimate.Load(), Upper: l.upper.Load()}, version, true
}

func (l *lastAnswer) still(version uint64) bool { return l.version.Load() == version }

// missed tells whether the last window that was not there was this one too: then its answer is worth keeping.
// Where each read asks for another second, keeping would cost more than it saves.
func (l *lastAnswer) missed(at, seconds int64) bool {
	if l.missedAt == at && l.missedSeconds == seconds {
		return true
	}
	l.missedAt, l.missedSeconds = at, seconds
	return false
}

// set keeps an answer.
func (l *lastAnswer) set(at, seconds int64, folded Count) {
	l.change()
	l.at.Store(at)
	l.seconds.Store(seconds)
	l.lower.Store(folded.Lower)
	l.estimate.Store(folded.Estimate)
	l.upper.Store(folded.Upper)
	l.of.Store(l.version.Load())
}

// change comes before every change of the window.
func (l *lastAnswer) change() { l.version.Add(1) }

// MaxPoints is the longest Series.
const MaxPoints = 10_000

// Series answers with the counts of consecutive windows of length step: the bars of a chart. The first window ends at
// from+step and the last at or before to. from is cut to a whole second. Points within the key's newest 511 s are
// exact. The slots at the two ends of an older point are up to 1 % of its age wide, and its bounds say so.
//
// At most MaxPoints, at least one; each costs what a Count does.
func (e *Engine) Series(key string, from, to time.Time, step time.Duration) ([]Point, error) {
	return e.SeriesIn(nil, key, from, to, step)
}

// SeriesIn is Engine.Series; of AllKeys, it counts the hits of some partitions that
// a cut has.
func (e *Engine) SeriesIn(in replication.PartitionSet, key string, from, to time.Time, step time.Duration) ([]Point, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	seconds, err := wholeSeconds("step", step)
	if err != nil {
		return nil, err
	}
	n := (to.Unix() - from.Unix()) / seconds
	if n < 1 || n > MaxPoints {
		return nil, &Error{Code: api.CodeInvalidRange, Field: "step", Message: fmt.Sprintf(
			"from, to and step make %d points: must be 1 to %d", max(n, 0), MaxPoints)}
	}
	points := make([]Point, n)
	held := e.keys.WhileHeld(in, key, func() {
		h := e.horizon()
		for i := range points {
			at := from.Unix() + int64(i+1)*seconds
			points[i] = Point{At: time.Unix(at, 0), Count: h.limits(e.countIn(in, key, at, seconds), at, seconds)}
		}
	})
	if !held {
		return nil, errNotHeld
	}
	return points, nil
}

// Keys answers with the first limit keys, 1 to MaxList, that begin with prefix
// and come after the key after, in byte order. To page, pass the last key of the
// answer before. Keys of SeparatePrefix are listed only where prefix begins with it.
// O(keys); takes no lock.
func (e *Engine) Keys(prefix, after string, limit int) ([]string, error) {
	return e.KeysIn(nil, prefix, after, limit)
}

// KeysIn is Engine.Keys of some partitions.
func (e *Engine) KeysIn(in replication.PartitionSet, prefix, after string, limit int) ([]string, error) {
	if err := checkList("limit", limit); err != nil {
		return nil, err
	}
	first := keyHeap{}
	listed := map[string]bool{} // a key that was deleted and hit meanwhile may be met twice
	held := e.keys.Each(in, prefix, func(key string) {
		full := len(first) == limit
		if key <= after || full && key >= first[0] || listed[key] {
			return
		}
		if full {
			delete(listed, heap.Pop(&first).(string))
		}
		listed[key] = true
		heap.Push(&first, key)
	})
	if !held {
		return nil, errNotHeld
	}
	slices.Sort(first)
	return first, nil
}

// keyHeap keeps the least keys, the greatest of them at its root.
type keyHeap []string

// Len is how many partitions are in the set; of nil it is 0.
func (h keyHeap) Len() int           { return len(h) }
func (h keyHeap) Less(i, j int) bool { return h[i] > h[j] }
func (h keyHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *keyHeap) Push(x any)        { *h = append(*h, x.(string)) }
func (h *keyHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// Delete forgets the key and its hits, and tells whether it was there. AllKeys
// still counts them, as it did before. A hit that comes later starts the key again.
func (e *Engine) Delete(key string) (bool, error) {
	if key == AllKeys {
		return false, &Error{Code: api.CodeReservedKey, Field: "key", Message: "key * is reserved: it can't be deleted"}
	}
	if err := checkKey(key); err != nil {
		return false, err
	}
	if e.keys.Crowded() { // a removal is journaled too
		return false, e.crowded()
	}
	had, held := e.keys.Delete(key)
	return had, ifHeld(held)
}

// Has tells whether a key is in memory: it was hit, and was neither evicted nor deleted, nor
// is its retention over. Of a partition that another node's engine holds it is always true. O(1), takes no
// lock.
func (e *Engine) Has(key string) bool { return e.keys.Has(key) }

// MaxList is the longest answer of Top and Keys.
const MaxList = 10_000

// Top answers with the n keys, 1 to MaxList, that have the most hits in (at-w, at] by estimate. Equal keys are in order
// of their names. With a prefix, only keys that begin with it count. Top omits AllKeys, keys without hits in the
// window, and keys with SeparatePrefix unless the prefix asks for them. at is cut to a whole second.
//
// Cost: O(keys), one short lock for each key with the prefix, so that hits are
// not held up.
func (e *Engine) Top(at time.Time, w time.Duration, n int, prefix string) ([]KeyCount, error) {
	return e.TopIn(nil, at, w, n, prefix)
}

// TopIn is Engine.Top of the keys of some partitions.
func (e *Engine) TopIn(in replication.PartitionSet, at time.Time, w time.Duration, n int, prefix string) ([]KeyCount, error) {
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
			best.offer(KeyCount{Key: key, Count: c})
		}
	})
	if !held {
		return nil, errNotHeld
	}
	h := e.horizon()
	for i, kc := range best.list {
		best.list[i].Count = h.limits(e.keys.Bounds(kc.Count, kc.Key, at.Unix(), seconds), at.Unix(), seconds)
	}
	slices.SortFunc(best.list, func(a, b KeyCount) int { return -compareCounts(a, b) })
	return best.list, nil
}

func checkList(field string, n int) error {
	if n < 1 || n > MaxList {
		return &Error{Code: api.CodeInvalidRange, Field: field, Message: fmt.Sprintf("%s of %d: must be 1 to %d", field, n, MaxList)}
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

// Len is how many partitions are in the set; of nil it is 0.
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
