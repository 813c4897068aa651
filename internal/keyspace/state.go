package keyspace

import "github.com/weir-counter/weir/internal/replication"

// state begins the partition's state after b: all but its limits. All live cells are empty,
// and the caller holds mu.
func (p *partition) state(b []byte, partitions, number int) *replication.StateWriter {
	w := replication.NewStateWriter(b, partitions, number, p.shared.clock.Retention, &p.total)
	w.Evicted(p.evictedList())
	w.Windows(p.keys())
	p.table.Load().Each(func(en *entry) { w.Window(en.Key(), &en.Value.window) })
	w.Windows(p.quarantine.Len())
	p.quarantine.Each(w.Window)
	w.Past(p.shared.pastUntil.Load())
	return w
}

// Install puts all of a state into the partition but what keys have used of
// their limits. Keys that are there already have new hits only.
func (k *Keyspace) Install(number int, s replication.State) error {
	p := &k.partitions[number]
	p.mu.Lock()
	defer p.mu.Unlock()
	limit := p.look()
	k.bytes.Add(int64(s.Total.Size() - p.total.Size()))
	p.total = s.Total
	k.NotePast(s.Past)
	for _, f := range s.Evicted {
		p.addEvicted(f)
	}
	for i := range s.Keys {
		key, window := s.Keys[i].Key, &s.Keys[i].Window
		hash := k.hash(key)
		en := p.table.Load().Find(hash, key)
		if en == nil {
			en = p.insert(hash, key)
		} else if err := window.Merge(&en.Value.window); err != nil {
			return err
		}
		before := en.Value.window.Size()
		en.Value.window = *window
		p.grew(int64(en.Value.window.Size() - before))
		if newest, ok := en.Value.window.Newest(); ok { // that of a key which is counted apart may be after all others
			k.clock.Advance(newest)
		}
	}
	for i := range s.Quarantined {
		a := &s.Quarantined[i]
		newest, _ := a.Window.Newest()
		k.clock.NoteQuarantined(newest, a.Window.Total(), limit)
		k.bytes.Add(int64(p.quarantine.Take(a.Key, &a.Window, limit)))
	}
	p.quarantineAll(limit)
	p.merge(limit)
	if newest, ok := p.total.Newest(); ok {
		k.clock.Advance(newest)
	}
	if !p.away.Load() { // else Hold makes room
		k.makeRoom(p)
	}
	return nil
}

// HasKeys tells whether a partition has any.
func (k *Keyspace) HasKeys(number int) bool {
	p := &k.partitions[number]
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys() > 0
}
