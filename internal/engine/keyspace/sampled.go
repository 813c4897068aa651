package keyspace

import (
	"strings"

	"github.com/weir-counter/weir/window"
)

// This part keeps in doubt what sampling added. A sampled line counts n hits of a key, of which the sender saw fewer. What was
// added counts under a second key, its companion, in the partition of the key. One more companion of each partition has
// the sum of all. Counts look companions up: they subtract from the lower bound, and there is no upper bound.
//
// Companions begin with separatePrefix: no list shows them, and allKeys has none of their hits. In all else they are keys. So they are
// journaled, restored and kept as long as the hits themselves.
//
// Invariants. A companion counts before the hits do. It is evicted and deleted with its key, never before.

// SampledPrefix begins the companions of keys with sampled hits. No limit has such a name.
const SampledPrefix = separatePrefix + "~sampled:"

// HitSampled counts what sampling added to hits of a key, before the hits themselves count.
func (k *Keyspace) HitSampled(second int64, key string, added uint64) {
	number := k.PartitionOf(key)
	for _, companion := range []string{SampledPrefix + key, SampledPrefix} {
		k.Hit(second, Expected{companion, number, k.hash(companion)}, added)
	}
}

// HitPastSampled is HitSampled of hits that only a history keeps.
func (k *Keyspace) HitPastSampled(second int64, key string, added uint64) {
	number := k.PartitionOf(key)
	for _, companion := range []string{SampledPrefix + key, SampledPrefix} {
		k.hitPast(&k.partitions[number], second, companion, added)
	}
}

// noteSampled notes that there is a companion, if key is one: from then on counts look for theirs.
func (s *shared) noteSampled(key string) {
	if strings.HasPrefix(key, SampledPrefix) && !s.sampled.Load() {
		s.sampled.Store(true)
	}
}

// inDoubt is a count of a key, or of the whole partition for key "", in which what sampling added is in doubt. The caller holds mu.
func (p *partition) inDoubt(c window.Count, key string, at, seconds int64) window.Count {
	if !p.shared.sampled.Load() {
		return c
	}
	added := p.countKey(SampledPrefix+key, at, seconds)
	if added.Upper == 0 {
		return c
	}
	c.Lower -= min(c.Lower, added.Upper)
	return c.AtLeast()
}

// AllInDoubt is a count of allKeys, of all partitions, in which what sampling added is in doubt.
func (k *Keyspace) AllInDoubt(c window.Count, at, seconds int64) window.Count {
	if !k.sampled.Load() {
		return c
	}
	for i := range k.partitions {
		p := &k.partitions[i]
		p.mu.Lock()
		c = p.inDoubt(c, "", at, seconds)
		p.mu.Unlock()
	}
	return c
}

// companion is the entry of a key's companion, or nil. The caller holds mu.
func (p *partition) companion(key string) *entry {
	if !p.shared.sampled.Load() {
		return nil
	}
	companion := SampledPrefix + key
	return p.table.Load().Find(p.shared.hash(companion), companion)
}

// evictable tells whether a key may be evicted by itself. A companion goes with its key. The caller holds mu.
func (p *partition) evictable(key string) bool {
	of, is := strings.CutPrefix(key, SampledPrefix)
	return !is || of != "" && p.table.Load().Find(p.shared.hash(of), of) == nil
}
