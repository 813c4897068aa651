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
	if p.away.Load() {
		e.makeRoomToPass(p)
		return
	}
	if !e.overBudget() {
		return
	}
	e.evictCold(p, 1)
	first := int(e.evictNext.Add(evictTries))
	for i := range min(evictTries, len(e.partitions)) {
		if !e.overBudget() {
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
// p.mu.
func (e *Engine) evictCold(p *partition, leave int) {
	if p.away.Load() {
		return
	}
	if e.overBudget() && !p.ahead.empty() {
		p.evictAhead(e)
	}
	for e.overBudget() && p.keys > leave {
		e.evictSome(p, leave)
	}
}

// evictSome is one search.
func (e *Engine) evictSome(p *partition, leave int) {
	type candidate struct {
		*entry
		newest int64
	}
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

// overBudget tells whether the keys that are held take more than the budget. Those that
// pass through do not count: no key is evicted for their sake.
func (e *Engine) overBudget() bool {
	return e.bytes.Load()-e.holding.passing.Load() > e.cfg.Memory
}

// passingShare is the part of the budget that keys may take beside it which pass through.
const passingShare = 8

// makeRoomToPass forgets the keys of a partition that is not held, which have new hits
// alone, while all such keys take too much. The caller holds p.mu.
func (e *Engine) makeRoomToPass(p *partition) {
	if e.holding.passing.Load() > e.cfg.Memory/passingShare {
		p.letGo(e)
	}
}

// makeRoomEvenly evicts from all partitions alike, after one was taken.
func (e *Engine) makeRoomEvenly() {
	for again := true; again; {
		again = false
		for i := range e.partitions {
			if !e.overBudget() {
				return
			}
			p := &e.partitions[i]
			p.mu.Lock()
			if !p.ahead.empty() {
				p.evictAhead(e)
			}
			if !p.away.Load() && p.keys > 1 {
				e.evictSome(p, 1)
				again = true
			}
			p.mu.Unlock()
		}
	}
}
