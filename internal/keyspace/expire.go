package keyspace

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
