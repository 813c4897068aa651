package keyspace

import "github.com/weir-counter/weir/window"

// What tests of an engine look at.

// Heat gives a key stripes, as cores that hit it at once do. It fails if the key is not there.
func (k *Keyspace) Heat(key string) (there bool) {
	p := k.partition(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	en := p.table.Load().Find(k.hash(key), key)
	if en != nil {
		p.heat(en)
	}
	return en != nil
}

// Settled calls f with the window of each key of a partition, and with that of all keys under
// allKeys: without what live cells have. It tells how many windows are ahead of the clock.
func (k *Keyspace) Settled(number int, f func(key string, w *window.Window)) (ahead int) {
	p := &k.partitions[number]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.table.Load().Each(func(en *entry) { f(en.Key(), &en.Value.window) })
	f(allKeys, &p.total)
	return p.quarantine.Len()
}
