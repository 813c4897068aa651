package keyspace

import (
	"cmp"
	"slices"
	"sync"

	"github.com/weir-counter/weir/internal/engine/replication"
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
		t.EachIn(p.hand, func(en *entry) {
			if p.evictable(en.Key()) {
				found = append(found, candidate{en, p.newestOf(en)})
			}
		})
		p.hand = t.After(p.hand)
	}
	slices.SortFunc(found, func(a, b candidate) int { return cmp.Compare(a.newest, b.newest) })
	p.evictFirst(found, p.keys()-leave)
	clear(found) // or it would keep the evicted ones in memory
	*list = found
	candidates.Put(list)
}

// evictFirst evicts the first eighth of what a search found, coldest first, but no more than most keys. It returns how
// many.
func (p *partition) evictFirst(found []candidate, most int) int {
	found = found[:min(len(found), 1+len(found)/8, most)]
	for _, c := range found {
		total, newest := p.remove(c.entry)
		p.shared.bytes.Add(p.evicted.Add(c.Key(), total, newest))
		if en := p.companion(c.Key()); en != nil {
			p.remove(en)
		}
		p.shared.departed.evictedKeys.Add(1)
		p.shared.departed.evictedHits.Add(total)
	}
	return len(found)
}

// passingShare is the divisor of the budget that bounds the keys that pass through. They take memory in addition to the
// budget.
const passingShare = 8

// makeSpaceToPass forgets the keys of a partition that is not held, which have new hits
// alone, while all such keys take too much. The caller holds p.mu.
func (p *partition) makeSpaceToPass() {
	if p.shared.passing.Load() > p.shared.memory/passingShare {
		p.letGo()
	}
}

// evictCold evicts while the budget is exceeded and the partition has more keys than leave. One search finds some keys;
// of these it evicts the eighth that was hit least recently, so that many evictions share the cost of a search. The
// caller holds p.mu.
func (p *partition) evictCold(leave int) {
	if p.away.Load() {
		return
	}
	if p.shared.overBudget() && !p.quarantine.Empty() {
		p.evictQuarantined()
	}
	if p.companion("") != nil { // it stays
		leave++
	}
	for p.shared.overBudget() && p.keys() > leave {
		p.evictSome(leave)
	}
}

// evictedList is what a state has of the partition's evicted keys. The caller holds mu.
func (p *partition) evictedList() (list []replication.Evicted) {
	p.evicted.Each(func(place int, hits uint64, newest int64) {
		list = append(list, replication.Evicted{Place: place, Hits: hits, Newest: newest})
	})
	if hits, newest := p.evictedOfAll.Load(); hits > 0 {
		list = append(list, replication.Evicted{Place: replication.EvictedOfAll, Hits: hits, Newest: newest})
	}
	return list
}

// addEvicted adds a place of a state, or of the journal. The caller holds mu.
func (p *partition) addEvicted(f replication.Evicted) {
	switch {
	case f.Place == replication.EvictedOfAll:
		p.evictedOfAll.Add(f.Hits, f.Newest)
	case f.Place >= 0 && f.Place < replication.SketchPlaces:
		p.shared.bytes.Add(p.evicted.Merge(f.Place, f.Hits, f.Newest))
	}
}

// LookAhead has all partitions look after what is ahead of the clock, which may have been
// set. Where a journal cuts, they have.
func (k *Keyspace) LookAhead() {
	for i := range k.partitions {
		p := &k.partitions[i]
		p.mu.Lock()
		p.look()
		p.mu.Unlock()
	}
}

// Expire removes the partition's keys whose newest hit is older than the
// retention. It looks at them under the lock for a few buckets at a time.
func (k *Keyspace) Expire(number int) {
	p := &k.partitions[number]
	if p.away.Load() {
		return
	}
	limit := k.clock.Now() - k.clock.Retention
	t := p.table.Load()
	for i := range t.Buckets() {
		if t.Empty(i) {
			continue
		}
		p.mu.Lock()
		if p.table.Load() != t { // rebuilt: the next round sees the rest
			p.mu.Unlock()
			return
		}
		t.EachIn(i, func(en *entry) {
			if p.newestOf(en) > limit || p.table.Load() != t {
				return
			}
			total, newest := p.remove(en)
			k.bytes.Add(p.evicted.Add(en.Key(), total, newest))
			k.departed.expiredKeys.Add(1)
		})
		p.mu.Unlock()
	}
}
