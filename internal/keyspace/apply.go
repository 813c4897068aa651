package keyspace

import (
	"slices"

	"github.com/weir-counter/weir/internal/replication"
)

// Apply counts deltas that come from a journal: see replication.Engine.Apply.
func (k *Keyspace) Apply(number int, deltas []replication.Delta, own func(key string) []replication.Delta) {
	p := &k.partitions[number]
	p.mu.Lock()
	defer p.mu.Unlock()
	limit := p.look()
	for block := range slices.Chunk(deltas, lookUpBlock) {
		p.applyBlock(block, own, limit)
	}
	p.settleTotal(deltas, limit)
	if k.clock.Event {
		for _, d := range deltas {
			if d.N > 0 && d.At <= limit {
				k.clock.Advance(d.At)
			}
		}
	}
	if !p.away.Load() { // else it is on its way, and Hold makes room
		k.makeRoom(p)
	}
}

// lookUpBlock is how many keys applyBlock looks up together.
const lookUpBlock = 64

// applyBlock counts some deltas. As in cutCells, most of the time would go into
// one cache miss after the other: so it asks for the buckets of all keys, then for
// their entries, and only then counts. The caller holds mu.
func (p *partition) applyBlock(deltas []replication.Delta, own func(key string) []replication.Delta, limit int64) {
	var hashes [lookUpBlock]uint64
	var entries [lookUpBlock]*entry // nil: look again
	t := p.table.Load()
	for i, d := range deltas {
		hashes[i] = p.shared.hash(d.Key)
		t.Expect(hashes[i])
	}
	for i, d := range deltas {
		entries[i] = t.Find(hashes[i], d.Key)
	}
	for i, d := range deltas {
		en := entries[i]
		if en == nil {
			en = p.table.Load().Find(hashes[i], d.Key)
		}
		switch {
		case d.N > 0 && len(p.gone) > 0 && p.gone[d.Key] > 0: // it was before a removal of ours
		case d.N > 0 && d.At > limit:
			p.quarantineHits(d.Key, d.At, d.N, limit)
		case d.N > 0:
			if en == nil {
				en = p.insert(hashes[i], d.Key)
			}
			p.addSettled(en, d.At, d.N)
		case en != nil:
			p.dropQuarantined(d.Key)
			p.remove(en)
			p.restore(hashes[i], d.Key, own, limit)
			clear(entries[i+1:]) // one of them may be this one
		default:
			p.dropQuarantined(d.Key)
		}
	}
}

// restore counts own hits of a key again that come after its removal in the journal.
// The caller holds mu.
func (p *partition) restore(hash uint64, key string, own func(key string) []replication.Delta, limit int64) {
	var hits []replication.Delta
	note := func(d replication.Delta) {
		switch {
		case d.Key != key:
		case d.N == 0:
			hits = hits[:0]
		default:
			hits = append(hits, d)
		}
	}
	if own != nil {
		for _, d := range own(key) {
			note(d)
		}
	}
	for _, d := range p.deltas {
		note(d)
	}
	if len(hits) == 0 {
		return
	}
	en := p.insert(hash, key)
	for _, d := range hits {
		if d.At > limit { // the clock has run back since
			p.quarantineHits(key, d.At, d.N, limit)
		} else {
			p.addSettled(en, d.At, d.N)
		}
	}
}

// Confirm tells that an own removal of a key came back from the journal.
func (k *Keyspace) Confirm(number int, key string) {
	p := &k.partitions[number]
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone[key]--; p.gone[key] <= 0 {
		delete(p.gone, key)
	}
}
