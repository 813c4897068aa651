package keyspace

import (
	"github.com/weir-counter/weir/internal/replication"
)

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
	case f.Place >= 0 && f.Place < replication.EvictedPlaces:
		p.shared.bytes.Add(p.evicted.Merge(f.Place, f.Hits, f.Newest))
	}
}
