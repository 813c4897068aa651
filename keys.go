package weir

import (
	"container/heap"
	"slices"
	"strings"
)

// Keys answers with the first limit keys, 1 to MaxList, that begin with prefix
// and come after the key after, in byte order. To page, pass the last key of the
// answer before. Keys of ApartPrefix are listed only where prefix begins with it.
// O(keys); takes no lock.
func (e *Engine) Keys(prefix, after string, limit int) ([]string, error) {
	return e.replication.KeysIn(nil, prefix, after, limit)
}

// KeysIn is Keys of some partitions.
func (r *Replication) KeysIn(in PartitionSet, prefix, after string, limit int) ([]string, error) {
	e := r.engine
	if err := checkList("limit", limit); err != nil {
		return nil, err
	}
	first := keyHeap{}
	listed := map[string]bool{} // a key that was deleted and hit meanwhile may be met twice
	err := e.eachHeld(in, func(p *partition) {
		p.table.Load().eachWith(prefix, func(en *entry) {
			full := len(first) == limit
			if !lists(prefix, en.key) || en.key <= after || full && en.key >= first[0] || listed[en.key] {
				return
			}
			if full {
				delete(listed, heap.Pop(&first).(string))
			}
			listed[en.key] = true
			heap.Push(&first, en.key)
		})
	})
	if err != nil {
		return nil, err
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
	if e.waiting.tooMuch(e.cfg.MaxWaiting) { // a removal is journaled too
		return false, e.waiting.refusal()
	}
	p := e.partition(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.mustHold(); err != nil {
		return false, err
	}
	en := p.table.Load().find(e.hash(key), key)
	if had := p.dropAhead(e, key); en == nil && !had {
		return false, nil
	}
	key = strings.Clone(key)
	if en != nil {
		p.remove(e, en)
	}
	p.gather(e, Delta{Key: key})
	if e.cfg.Gather {
		if p.gone == nil {
			p.gone = map[string]int{}
		}
		p.gone[key]++
	}
	return true, nil
}
