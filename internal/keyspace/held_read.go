package keyspace

import (
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/window"
)

// CountAll is the count of all hits of some partitions that a cut has.
func (k *Keyspace) CountAll(in replication.PartitionSet, at, seconds int64) (sum window.Count) {
	for i := range k.partitions {
		if in.Has(i) {
			p := &k.partitions[i]
			p.mu.Lock()
			sum = sum.Plus(p.total.Count(at, seconds)).Plus(p.quarantine.Count(allKeys, at, seconds)).Plus(window.Count{Upper: p.evictedOfAll.Since(at - seconds)})
			p.mu.Unlock()
		}
	}
	return sum
}

// isHeld tells whether what a question about a key is about is held; of allKeys, some
// partitions.
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
// released meanwhile: it may have come back, and the answer lack something. It fails if it
// is not held.
func (k *Keyspace) WhileHeld(in replication.PartitionSet, key string, answer func()) (held bool) {
	for {
		releases := k.releases.Load()
		if !k.isHeld(in, key) {
			return false
		}
		if answer(); releases == k.releases.Load() {
			return true
		}
	}
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
