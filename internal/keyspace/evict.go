package keyspace

import (
	"cmp"
	"slices"
	"sync"
)

// searchBuckets is how many buckets of a table one search for cold keys looks
// at: some 6,000 keys, under a millisecond of the partition's lock.
const searchBuckets = 1024

// candidate is a key that may be evicted.
type candidate struct {
	*entry
	newest int64 // second of its newest hit
}

// candidates are lists for searches, which under a flood of new keys would be most of what is allocated.
var candidates = sync.Pool{New: func() any { return new([]candidate) }}

// evictSome is one search.
func (p *partition) evictSome(leave int) {
	list := candidates.Get().(*[]candidate)
	found := (*list)[:0]
	t := p.table.Load()
	for range min(searchBuckets, t.Buckets()) {
		t.EachIn(p.hand, func(en *entry) { found = append(found, candidate{en, p.newestOf(en)}) })
		p.hand = t.After(p.hand)
	}
	slices.SortFunc(found, func(a, b candidate) int { return cmp.Compare(a.newest, b.newest) })
	for _, c := range found[:min(len(found), 1+len(found)/8, p.keys()-leave)] {
		total, newest := p.remove(c.entry)
		p.shared.bytes.Add(p.evicted.Add(c.Key(), total, newest))
		p.shared.departed.evictedKeys.Add(1)
		p.shared.departed.evictedHits.Add(total)
	}
	clear(found) // or it would keep the evicted ones in memory
	*list = found
	candidates.Put(list)
}

// passingShare is the part of the budget that keys may take beside it which pass through.
const passingShare = 8

// makeRoomToPass forgets the keys of a partition that is not held, which have new hits
// alone, while all such keys take too much. The caller holds p.mu.
func (p *partition) makeRoomToPass() {
	if p.shared.passing.Load() > p.shared.memory/passingShare {
		p.letGo()
	}
}

// evictCold evicts while the budget is exceeded and the partition has more keys
// than leave: of the keys found in one search the eighth that was hit least
// recently, so that many evictions share the cost of a search. The caller holds
// p.mu.
func (p *partition) evictCold(leave int) {
	if p.away.Load() {
		return
	}
	if p.shared.overBudget() && !p.quarantine.Empty() {
		p.evictQuarantined()
	}
	for p.shared.overBudget() && p.keys() > leave {
		p.evictSome(leave)
	}
}
