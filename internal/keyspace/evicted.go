package keyspace

import (
	"github.com/weir-counter/weir/internal/replication"
)

// evictedList is what a state has of the partition's evicted keys. The caller holds mu.
func (p *partition) evictedList() (list []replication.Forgotten) {
	p.evicted.Each(func(place int, hits uint64, newest int64) {
		list = append(list, replication.Forgotten{Place: place, Hits: hits, Newest: newest})
	})
	if hits, newest := p.evictedOfAll.Load(); hits > 0 {
		list = append(list, replication.Forgotten{Place: replication.ForgottenOfAll, Hits: hits, Newest: newest})
	}
	return list
}

// addEvicted adds a place of a state, or of the journal. The caller holds mu.
func (p *partition) addEvicted(f replication.Forgotten) {
	switch {
	case f.Place == replication.ForgottenOfAll:
		p.evictedOfAll.Add(f.Hits, f.Newest)
	case f.Place >= 0 && f.Place < replication.ForgottenPlaces:
		p.shared.bytes.Add(p.evicted.Merge(f.Place, f.Hits, f.Newest))
	}
}
