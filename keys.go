package weir

import (
	"container/heap"
	"slices"

	"github.com/weir-counter/weir/internal/replication"
)

// Keys answers with the first limit keys, 1 to MaxList, that begin with prefix
// and come after the key after, in byte order. To page, pass the last key of the
// answer before. Keys of SeparatePrefix are listed only where prefix begins with it.
// O(keys); takes no lock.
func (e *Engine) Keys(prefix, after string, limit int) ([]string, error) {
	return e.side.KeysIn(nil, prefix, after, limit)
}

func (r *side) KeysIn(in replication.PartitionSet, prefix, after string, limit int) ([]string, error) {
	e := r.engine
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
		return false, &Error{CodeReservedKey, "key", "key * is reserved: it can't be deleted"}
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
