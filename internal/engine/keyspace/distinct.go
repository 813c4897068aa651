package keyspace

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/weir-counter/weir/internal/distinct"
	"github.com/weir-counter/weir/internal/engine/replication"
)

// This file has the distinct ids of keys. A key with ids has an entry in the table, and both leave together. Ids are a
// union: a node's own come back from the journal and are merged once more. So they need neither the positions nor the
// repairs of hits, except that a removal of the key takes those that are before it.

// ids are the distinct ids of a partition's keys.
type ids struct {
	sets  map[string]*distinct.Set           // by key; nil: no key has any
	fresh map[string]map[int64]*distinct.Set // those that no cut has, by key and quarter of an hour
}

// quarter is the narrowest slot of a history, in seconds. Each set of a cut has ids of one, because a set knows only when an id was
// seen last, and that less exactly the older it is.
const quarter = 15 * 60

// noQuarter is for ids that were seen at many times.
const noQuarter = -1

// idShare is the divisor of the budget that bounds the sets: beyond, the coldest keys with ids are evicted.
const idShare = 2

// searchIDs is how many keys with ids one search for cold ones looks at.
const searchIDs = 4096

// idWaitingBytes is the most that one id takes in a batch.
const idWaitingBytes = 16

// idFigures are what all sets take.
type idFigures struct{ keys, bytes atomic.Int64 }

// overIDs reports whether the sets take more than their share of the budget.
func (s *shared) overIDs() bool { return s.idFigures.bytes.Load() > s.memory/idShare }

// makeSpaceForIDs is makeSpace after ids were added.
func (k *Keyspace) makeSpaceForIDs(p *partition) {
	k.makeSpace(p)
	if k.overIDs() && !p.away.Load() {
		k.evictAround(p, (*shared).overIDs, (*partition).evictIDs)
	}
}

// evictIDs evicts keys with ids while all sets take too much and the partition has more of them than leave: see
// evictCold. The caller holds mu.
func (p *partition) evictIDs(leave int) {
	for !p.away.Load() && p.shared.overIDs() && p.evictSomeIDs(leave) {
	}
}

// evictSomeIDs is one search, and reports whether it has evicted any.
func (p *partition) evictSomeIDs(leave int) bool {
	if len(p.sets) <= leave {
		return false
	}
	found, t := make([]candidate, 0, min(searchIDs, len(p.sets))), p.table.Load()
	for key := range p.sets {
		if len(found) == searchIDs {
			break
		}
		if en := t.Find(p.shared.hash(key), key); en != nil {
			found = append(found, candidate{en, p.newestOf(en)})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.newest, b.newest), strings.Compare(a.Key(), b.Key()))
	})
	return p.evictFirst(found, len(p.sets)-leave) > 0
}

// KnowsID reports whether an id of a key was seen within the retention. Where the key's partition is not held, that is
// not known, and false.
func (k *Keyspace) KnowsID(key string, hash uint64) bool {
	p := k.partition(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	set := p.sets[key]
	return set != nil && set.Has(hash)
}

// HasIDs reports whether a key has ids. Where the key's partition is not held, that is not known, and false.
func (k *Keyspace) HasIDs(key string) bool {
	p := k.partition(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sets[key] != nil
}

// AddID notes that an id of a key was seen at a second that was checked. It is for a history alone if it is past.
func (k *Keyspace) AddID(key string, second int64, hash uint64, past bool) {
	p := k.partition(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	changed := true
	if !past && !p.away.Load() {
		p.change(p.setOf(key), func(set *distinct.Set) { changed = set.Add(second, hash) || second/quarter < set.Newest()/quarter })
		k.makeSpaceForIDs(p)
	}
	if changed {
		p.gatherIDs(key, second/quarter, idWaitingBytes, func(set *distinct.Set) { set.Add(second, hash) })
	}
}

// AddIDs adds ids to a key, here and in the next cut.
func (k *Keyspace) AddIDs(key string, set *distinct.Set) {
	p := k.partition(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.away.Load() {
		p.mergeIDs(key, set, p.look())
		k.makeSpaceForIDs(p)
	}
	p.gatherIDs(key, noQuarter, set.Size(), func(fresh *distinct.Set) { fresh.Merge(set) })
}

// setOf finds or makes the set of a key, which may be another one's bytes. The caller holds mu.
func (p *partition) setOf(key string) *distinct.Set {
	set := p.sets[key]
	if set == nil {
		hash := p.shared.hash(key)
		en := p.table.Load().Find(hash, key)
		if en == nil {
			en = p.insert(hash, key)
		}
		if p.sets == nil {
			p.sets = map[string]*distinct.Set{}
		}
		set = distinct.New(p.shared.clock.Retention)
		p.sets[en.Key()] = set
		p.shared.idFigures.keys.Add(1)
		p.grewIDs(idBytes(set))
	}
	return set
}

// idBytes is the memory of a set and its place in the map.
func idBytes(set *distinct.Set) int { return set.Size() + 48 }

func (p *partition) grewIDs(bytes int) {
	p.shared.idFigures.bytes.Add(int64(bytes))
	p.grew(int64(bytes))
}

// change changes a set. The caller holds mu.
func (p *partition) change(set *distinct.Set, f func(set *distinct.Set)) {
	before := set.Size()
	if limit := p.shared.clock.Limit(); set.Newest() > limit { // the clock has run back
		set.SetBack(limit)
	}
	f(set)
	p.grewIDs(set.Size() - before)
}

// mergeIDs merges ids of a key. Ids that a node saw whose clock is ahead were seen by now. The caller holds mu.
func (p *partition) mergeIDs(key string, more *distinct.Set, limit int64) {
	if more.Newest() > limit {
		more.SetBack(limit)
	}
	p.change(p.setOf(key), func(set *distinct.Set) { set.Merge(more) })
}

// gatherIDs notes ids for the next cut. The caller holds mu.
func (p *partition) gatherIDs(key string, at int64, bytes int, add func(set *distinct.Set)) {
	if !p.shared.gather {
		return
	}
	if p.fresh == nil {
		p.fresh = map[string]map[int64]*distinct.Set{}
	}
	if p.fresh[key] == nil {
		p.fresh[strings.Clone(key)] = map[int64]*distinct.Set{}
	}
	set := p.fresh[key][at]
	if set == nil {
		set = distinct.New(p.shared.clock.Retention)
		p.fresh[key][at] = set
		p.bytes += waitingBytes(key)
	}
	add(set)
	p.bytes += bytes
	p.tellWaiting()
}

// cutIDs takes what was gathered, by key. The caller holds mu.
func (p *partition) cutIDs() (list []replication.KeyDistinct) {
	for _, key := range slices.Sorted(maps.Keys(p.fresh)) {
		for _, at := range slices.Sorted(maps.Keys(p.fresh[key])) {
			list = append(list, replication.KeyDistinct{Key: key, Set: p.fresh[key][at]})
		}
	}
	p.fresh = nil
	return list
}

// forgetIDs forgets the ids of a key that leaves the table. The caller holds mu.
func (p *partition) forgetIDs(key string) {
	if set := p.sets[key]; set != nil {
		delete(p.sets, key)
		p.shared.idFigures.keys.Add(-1)
		p.grewIDs(-idBytes(set))
	}
}

// forgetAllIDs is forgetIDs of all keys.
func (p *partition) forgetAllIDs() {
	for key := range p.sets {
		p.forgetIDs(key)
	}
	p.sets = nil
}

// restoreIDs adds what no cut has of a key again, after a removal of an other node. The caller holds mu.
func (p *partition) restoreIDs(key string, limit int64) {
	for _, set := range p.fresh[key] {
		p.mergeIDs(strings.Clone(key), set.Clone(), limit)
	}
}

// MergeDistinct adds ids that come from a journal to keys of a partition that is held, in any order and however often:
// own ones come back too. They are not gathered again.
func (k *Keyspace) MergeDistinct(number int, list []replication.KeyDistinct) {
	p := &k.partitions[number]
	p.mu.Lock()
	defer p.mu.Unlock()
	k.mergeDistinct(p, list, p.look())
}

// mergeDistinct is MergeDistinct. The caller holds mu.
func (k *Keyspace) mergeDistinct(p *partition, list []replication.KeyDistinct, limit int64) {
	for _, d := range list {
		if p.gone[d.Key] == 0 && d.Set.Newest() > p.shared.clock.Now()-p.shared.clock.Retention { // else it was before a removal of ours, or is past
			p.mergeIDs(d.Key, d.Set, limit)
		}
	}
	if !p.away.Load() { // else Hold frees memory once the partition is held
		k.makeSpaceForIDs(p)
	}
}

// IDs returns a copy of the ids of a key; nil: it has none. An evicted key of that name may have had gone hits after a
// second, and so as many ids more.
func (k *Keyspace) IDs(key string, from int64) (set *distinct.Set, gone uint64) {
	p := k.partition(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	if set = p.sets[key]; set != nil {
		p.change(set, func(*distinct.Set) {}) // as the clock says now
		set = set.Clone()
	}
	return set, p.evicted.Since(key, from)
}
