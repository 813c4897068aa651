package keyspace

// evictTries is how many other partitions one hit may evict from.
const evictTries = 32

// makeRoom evicts keys while the memory budget is exceeded: cold ones of this
// partition, whose lock the caller holds, and where its last key alone is left,
// of others that are not locked just now. Since hashing spreads keys evenly, the
// coldest of a partition stand for the coldest of all.
func (k *Keyspace) makeRoom(p *partition) {
	if p.away.Load() {
		p.makeRoomToPass()
		return
	}
	if !k.overBudget() {
		return
	}
	p.evictCold(1)
	first := int(k.evictNext.Add(evictTries))
	for i := range min(evictTries, len(k.partitions)) {
		if !k.overBudget() {
			return
		}
		if other := &k.partitions[(first+i)%len(k.partitions)]; other != p && other.mu.TryLock() {
			other.evictCold(0)
			other.mu.Unlock()
		}
	}
}

// makeRoomEvenly evicts from all partitions alike, after one was taken.
func (k *Keyspace) makeRoomEvenly() {
	for again := true; again; {
		again = false
		for i := range k.partitions {
			if !k.overBudget() {
				return
			}
			p := &k.partitions[i]
			p.mu.Lock()
			if !p.quarantine.Empty() {
				p.evictQuarantined()
			}
			if !p.away.Load() && p.keys() > 1 {
				p.evictSome(1)
				again = true
			}
			p.mu.Unlock()
		}
	}
}
