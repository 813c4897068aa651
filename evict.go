package weir

import (
	"cmp"
	"slices"
)

// searchBuckets is how many buckets of a table one search for cold keys looks
// at: some 6,000 keys, under a millisecond of the partition's lock.
const searchBuckets = 1024

// evictTries is how many other partitions one hit may evict from.
const evictTries = 32

// makeRoom evicts keys while the memory budget is exceeded: cold ones of this
// partition, whose lock the caller holds, and where its last key alone is left,
// of others that are not locked just now. Since hashing spreads keys evenly, the
// coldest of a partition stand for the coldest of all.
func (e *Engine) makeRoom(p *partition) {
	if e.bytes.Load() <= e.cfg.Memory {
		return
	}
	e.evictCold(p, 1)
	first := int(e.evictNext.Add(evictTries))
	for i := range min(evictTries, len(e.partitions)) {
		if e.bytes.Load() <= e.cfg.Memory {
			return
		}
		if other := &e.partitions[(first+i)%len(e.partitions)]; other != p && other.mu.TryLock() {
			e.evictCold(other, 0)
			other.mu.Unlock()
		}
	}
}

// evictCold evicts while the budget is exceeded and the partition has more keys
// than leave: of the keys found in one search the eighth that was hit least
// recently, so that many evictions share the cost of a search. The caller holds
// p.mu. Keys of a partition that is not held leave with the next cut anyway.
func (e *Engine) evictCold(p *partition, leave int) {
	if p.away.Load() {
		return
	}
	type candidate struct {
		*entry
		newest int64
	}
	for e.bytes.Load() > e.cfg.Memory && p.keys > leave {
		var found []candidate
		t := p.table.Load()
		for range min(searchBuckets, len(t.buckets)) {
			t.eachIn(p.hand, func(en *entry) { found = append(found, candidate{en, e.newestOf(en)}) })
			p.hand = t.next(p.hand)
		}
		slices.SortFunc(found, func(a, b candidate) int { return cmp.Compare(a.newest, b.newest) })
		for _, c := range found[:min(len(found), 1+len(found)/8, p.keys-leave)] {
			total, newest := p.remove(e, c.entry)
			p.forgotten.add(e, c.key, total, newest)
			e.departed.evictedKeys.Add(1)
			e.departed.evictedHits.Add(total)
		}
	}
}
