package engine

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/keyspace"
	"github.com/weir-counter/weir/internal/engine/replication"
)

// Count answers how many hits the key has in the last w, up to Now. A key that was never hit has none. AllKeys counts
// all hits, including hits of evicted and deleted keys.
//
// Where keys were evicted, Upper includes what a key may have had before. Where the window reaches back beyond the
// retention, no upper bound is known: older hits are refused, and those that were taken may have left.
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

// CountAt answers how many hits the key has in (at-w, at]; at may lie in the past. If at has a fraction of a second,
// the two seconds that the window cuts are in doubt, and the bounds say so.
//
// Cost: a look-up, the partition's lock, and O(1), or up to some 200 pairs for a sparse key.
func (e *Engine) CountAt(at time.Time, key string, w time.Duration) (Count, error) {
	return e.CountIn(nil, at, key, w)
}

// CountIn is Engine.CountAt; of AllKeys, it counts the hits of some partitions that a cut has.
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

func (e *Engine) checkRead(key string, w time.Duration) (seconds int64, err error) {
	if err := keyspace.CheckKey(key); err != nil {
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
	version, answered      atomic.Uint64 // answered: the version that the answer belongs to
	at, seconds            atomic.Int64  // 0 seconds: no answer
	lower, estimate, upper atomic.Uint64

	missedAt, missedSeconds int64 // the last window that was not there; guarded by the counter's lock
}

// get returns the answer for the window, if it is the last one asked for. It
// holds if still(version) says so after the caller has read the live hits.
func (l *lastAnswer) get(at, seconds int64) (folded Count, version uint64, ok bool) {
	version = l.version.Load()
	if l.answered.Load() != version || l.at.Load() != at || l.seconds.Load() != seconds {
		return Count{}, 0, false
	}
	return Count{Lower: l.lower.Load(), Estimate: l.estimate.Load(), Upper: l.upper.Load()}, version, true
}

func (l *lastAnswer) still(version uint64) bool { return l.version.Load() == version }

// missed reports whether the last window that was not there was this one too: then its answer is worth keeping.
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
	l.answered.Store(l.version.Load())
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

// SeriesIn is Engine.Series; of AllKeys, it counts the hits of some partitions that a cut has.
func (e *Engine) SeriesIn(in replication.PartitionSet, key string, from, to time.Time, step time.Duration) ([]Point, error) {
	if err := keyspace.CheckKey(key); err != nil {
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

// Keys answers with the first limit keys, 1 to MaxList, that begin with prefix and come after the key after, in byte
// order. To page, pass the last key of the answer before. Keys of SeparatePrefix are listed only where prefix begins
// with it. O(keys); takes no lock.
func (e *Engine) Keys(prefix, after string, limit int) ([]string, error) {
	return e.KeysIn(nil, prefix, after, limit)
}

// KeysIn is Engine.Keys of some partitions.
func (e *Engine) KeysIn(in replication.PartitionSet, prefix, after string, limit int) ([]string, error) {
	if err := checkList("limit", limit); err != nil {
		return nil, err
	}
	first := firstKeys{most: limit, before: func(a, b KeyCount) bool { return a.Key < b.Key }, listed: map[string]bool{}}
	held := e.keys.Each(in, prefix, func(key string) {
		if key > after {
			first.offer(KeyCount{Key: key})
		}
	})
	if !held {
		return nil, errNotHeld
	}
	keys := make([]string, len(first.list))
	for i := range keys {
		keys[i] = first.list[i].Key
	}
	slices.Sort(keys)
	return keys, nil
}

// firstKeys keeps the keys that come first in an order. It is a heap with the last of them at its root.
type firstKeys struct {
	most   int
	before func(a, b KeyCount) bool
	list   []KeyCount
	listed map[string]bool // a key that was deleted and hit meanwhile may be met twice
}

func (f *firstKeys) Len() int           { return len(f.list) }
func (f *firstKeys) Less(i, j int) bool { return f.before(f.list[j], f.list[i]) }
func (f *firstKeys) Swap(i, j int)      { f.list[i], f.list[j] = f.list[j], f.list[i] }
func (f *firstKeys) Push(x any)         { f.list = append(f.list, x.(KeyCount)) }
func (f *firstKeys) Pop() any {
	last := f.list[len(f.list)-1]
	f.list = f.list[:len(f.list)-1]
	return last
}

func (f *firstKeys) offer(key KeyCount) {
	full := len(f.list) == f.most
	if full && !f.before(key, f.list[0]) || f.listed[key.Key] {
		return
	}
	if full {
		delete(f.listed, heap.Pop(f).(KeyCount).Key)
	}
	f.listed[key.Key] = true
	heap.Push(f, key)
}

// Delete forgets the key and its hits, and reports whether it was there. AllKeys
// still counts them, as it did before. A hit that comes later starts the key again.
func (e *Engine) Delete(key string) (bool, error) {
	if key == AllKeys {
		return false, &Error{Code: api.CodeReservedKey, Field: "key", Message: "key * is reserved: it can't be deleted"}
	}
	if err := keyspace.CheckKey(key); err != nil {
		return false, err
	}
	if e.keys.Crowded() { // a removal is journaled too
		return false, e.crowded()
	}
	had, held := e.keys.Delete(key)
	return had, ifHeld(held)
}

// MaxList is the longest answer of Top and Keys.
const MaxList = 10_000

// Top answers with the n keys, 1 to MaxList, that have the most hits in (at-w, at] by estimate. Equal keys are in order
// of their names. With a prefix, only keys that begin with it count. Top omits AllKeys, keys without hits in the
// window, and keys with SeparatePrefix unless the prefix asks for them. at is cut to a whole second.
//
// Cost: O(keys), one short lock for each key with the prefix, so that hits are not held up.
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
	first := firstKeys{most: n, before: func(a, b KeyCount) bool { return compareCounts(a, b) > 0 }, listed: map[string]bool{}}
	held := e.keys.EachCount(in, prefix, at.Unix(), seconds, func(key string, c Count) {
		if c.Upper > 0 {
			first.offer(KeyCount{Key: key, Count: c})
		}
	})
	if !held {
		return nil, errNotHeld
	}
	h := e.horizon()
	for i, kc := range first.list {
		first.list[i].Count = h.limits(e.keys.Bounds(kc.Count, kc.Key, at.Unix(), seconds), at.Unix(), seconds)
	}
	slices.SortFunc(first.list, func(a, b KeyCount) int { return -compareCounts(a, b) })
	return first.list, nil
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
