package keyspace

import (
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/window"
)

// Count returns the hits of a key in (at-seconds, at]; its bounds include the hits that the key may have had before it was evicted.
func (k *Keyspace) Count(key string, at, seconds int64) window.Count {
	p := k.partition(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bounds(p.countKey(key, at, seconds), key, at, seconds)
}

// countKey is what a key was hit, if it is there. The caller holds mu.
func (p *partition) countKey(key string, at, seconds int64) (c window.Count) {
	if en := p.table.Load().Find(p.shared.hash(key), key); en != nil {
		c = p.count(en, at, seconds)
	} else if !p.quarantine.Empty() {
		c = p.quarantine.Count(key, at, seconds)
	}
	return c
}

// bounds widens a count by what sampling added, and by the hits that the key may have had before it was evicted. The caller holds mu.
func (p *partition) bounds(c window.Count, key string, at, seconds int64) window.Count {
	c = p.inDoubt(c, key, at, seconds)
	sum, carry := bits.Add64(c.Upper, p.evicted.Since(key, at-seconds), 0)
	if carry != 0 {
		sum = math.MaxUint64
	}
	c.Upper = sum
	return c
}

// Bounds turns a count of EachCount into one as Count returns it.
func (k *Keyspace) Bounds(c window.Count, key string, at, seconds int64) window.Count {
	p := k.partition(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bounds(c, key, at, seconds)
}

// EachCount calls f with the keys of some partitions that begin with prefix, and their counts, which Bounds widens. It
// locks a partition for each of them, and fails if a partition is not held.
func (k *Keyspace) EachCount(in replication.PartitionSet, prefix string, at, seconds int64, f func(key string, c window.Count)) (held bool) {
	k.atOnce.RLock()
	defer k.atOnce.RUnlock()
	return k.eachHeld(in, func(p *partition) {
		p.table.Load().EachWith(prefix, func(en *entry) {
			if lists(prefix, en.Key()) {
				p.mu.Lock()
				c := p.count(en, at, seconds)
				p.mu.Unlock()
				f(en.Key(), c)
			}
		})
	})
}

// Each calls f with the keys of some partitions that begin with prefix. It takes no lock of a
// partition, and fails if a partition is not held.
func (k *Keyspace) Each(in replication.PartitionSet, prefix string, f func(key string)) (held bool) {
	k.atOnce.RLock()
	defer k.atOnce.RUnlock()
	return k.eachHeld(in, func(p *partition) {
		p.table.Load().EachWith(prefix, func(en *entry) {
			if lists(prefix, en.Key()) {
				f(en.Key())
			}
		})
	})
}

// A history may keep hits that are older than the retention. Such hits change no window. They pass through to the
// journal, in addition to the deltas.

// HitPast gathers n such hits of a key.
func (k *Keyspace) HitPast(second int64, key string, n uint64) {
	k.hitPast(k.partition(key), second, key, n)
}

func (k *Keyspace) hitPast(p *partition, second int64, key string, n uint64) {
	k.NotePast(k.clock.Wall.Time().UnixMilli())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.past = append(p.past, replication.Delta{Key: strings.Clone(key), At: second, N: n})
	p.bytes += waitingBytes(key)
	if len(p.past) > max(compactFirst, p.pastCompactAt) {
		p.bytes -= bytesOf(p.past)
		p.past = compact(p.past)
		p.bytes += bytesOf(p.past)
		p.pastCompactAt = 2 * len(p.past)
	}
	p.tellWaiting()
}

// removePast puts the old hits of a key that is removed now before its removal. The caller holds mu.
func (p *partition) removePast(key string) {
	p.past = slices.DeleteFunc(p.past, func(d replication.Delta) bool {
		if d.Key == key {
			p.pastRemoved = append(p.pastRemoved, d)
		}
		return d.Key == key
	})
}

// NotePast notes that hits for history alone were taken until a time, Unix ms, here or at another node: states tell it (State.Past).
func (k *Keyspace) NotePast(until int64) {
	for {
		was := k.pastUntil.Load()
		if until <= was || k.pastUntil.CompareAndSwap(was, until) {
			return
		}
	}
}

// PastUntil is until when hits for history alone were taken, Unix ms; 0: never.
func (k *Keyspace) PastUntil() int64 { return k.pastUntil.Load() }

// CountAll is the count of all hits of some partitions that a cut has.
func (k *Keyspace) CountAll(in replication.PartitionSet, at, seconds int64) (sum window.Count) {
	for i := range k.partitions {
		if in.Has(i) {
			p := &k.partitions[i]
			p.mu.Lock()
			all := p.total.Count(at, seconds).Plus(p.quarantine.Count(allKeys, at, seconds)).Plus(window.Count{Upper: p.evictedOfAll.Since(at - seconds)})
			sum = sum.Plus(p.inDoubt(all, "", at, seconds))
			p.mu.Unlock()
		}
	}
	return sum
}

// isHeld reports whether what a question about a key is about is held; of allKeys, some partitions.
func (k *Keyspace) isHeld(in replication.PartitionSet, key string) bool {
	switch {
	case key != allKeys:
		return !k.partition(key).away.Load()
	case !k.parted.Load():
		return true
	}
	return k.eachHeld(in, func(*partition) {})
}

// WhileHeld calls answer while what a question is about is held, again if a partition was
// released or cleared meanwhile: the answer may lack something. It fails if it is not held.
func (k *Keyspace) WhileHeld(in replication.PartitionSet, key string, answer func()) (held bool) {
	for {
		releases := k.releases.Load()
		held := k.ifHeld(in, key, answer)
		if !held || releases == k.releases.Load() {
			return held
		}
	}
}

func (k *Keyspace) ifHeld(in replication.PartitionSet, key string, answer func()) (held bool) {
	if key == allKeys && k.parted.Load() {
		k.atOnce.RLock()
		defer k.atOnce.RUnlock()
	}
	if held = k.isHeld(in, key); held {
		answer()
	}
	return held
}

// AtOnce runs a change of several partitions, made with the other methods. Questions about several partitions wait
// meanwhile: each is answered from before the change or from after it.
func (k *Keyspace) AtOnce(change func()) {
	k.atOnce.Lock()
	defer k.atOnce.Unlock()
	change()
}

// eachHeld calls f for the partitions of a set. It fails if one is not held.
func (k *Keyspace) eachHeld(in replication.PartitionSet, f func(p *partition)) (held bool) {
	for i := range k.partitions {
		if !in.Has(i) {
			continue
		}
		p := &k.partitions[i]
		if p.away.Load() {
			return false
		}
		f(p)
		if p.away.Load() { // released meanwhile
			return false
		}
	}
	return true
}

// The code below keeps in doubt what sampling added. A sampled line counts n hits of a key, of which the sender saw fewer. What was
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

// evictable reports whether a key may be evicted by itself. A companion goes with its key. The caller holds mu.
func (p *partition) evictable(key string) bool {
	base, is := strings.CutPrefix(key, SampledPrefix)
	return !is || base != "" && p.table.Load().Find(p.shared.hash(base), base) == nil
}
