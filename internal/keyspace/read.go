package keyspace

import (
	"math"
	"math/bits"

	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/window"
)

// Count is what a key was hit in (at-seconds, at], with what an evicted key of that name may
// have been.
func (k *Keyspace) Count(key string, at, seconds int64) window.Count {
	p, hash := k.partition(key), k.hash(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	var c window.Count
	if en := p.table.Load().Find(hash, key); en != nil {
		c = p.count(en, at, seconds)
	} else if !p.quarantine.Empty() {
		c = p.quarantine.Count(key, at, seconds)
	}
	return p.withEvicted(c, key, at-seconds)
}

// withEvicted raises the upper bound by what an evicted key of that name may
// have had since the second from.
func (p *partition) withEvicted(c window.Count, key string, from int64) window.Count {
	sum, carry := bits.Add64(c.Upper, p.evicted.Since(key, from), 0)
	if carry != 0 {
		sum = math.MaxUint64
	}
	c.Upper = sum
	return c
}

// WithEvicted is a count as count has it, of one that eachCount gave: of a window that begins at
// the second from.
func (k *Keyspace) WithEvicted(c window.Count, key string, from int64) window.Count {
	return k.partition(key).withEvicted(c, key, from)
}

// EachCount calls f with the keys of some partitions that begin with prefix, and their counts,
// without what may have been evicted. It locks a partition for each of them, and fails if a
// partition is not held.
func (k *Keyspace) EachCount(in replication.PartitionSet, prefix string, at, seconds int64, f func(key string, c window.Count)) (held bool) {
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

// Each calls f with the keys of some partitions that begin with prefix. It takes no lock, and
// fails if a partition is not held.
func (k *Keyspace) Each(in replication.PartitionSet, prefix string, f func(key string)) (held bool) {
	return k.eachHeld(in, func(p *partition) {
		p.table.Load().EachWith(prefix, func(en *entry) {
			if lists(prefix, en.Key()) {
				f(en.Key())
			}
		})
	})
}
