package keyspace

import (
	"errors"

	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/window"
)

// MergeWindows adds windows that come from a journal: see replication.Engine.MergeWindows.
func (k *Keyspace) MergeWindows(number int, list []replication.KeyWindow) error {
	var errs []error
	p := &k.partitions[number]
	p.mu.Lock()
	defer p.mu.Unlock()
	limit := p.look()
	for i := range list {
		errs = append(errs, k.mergeWindow(p, list[i].Key, &list[i].Window, limit))
	}
	if !p.away.Load() { // else it is on its way, and Hold makes room
		k.makeRoom(p)
	}
	return errors.Join(errs...)
}

// mergeWindow is mergeWindows of one. The caller holds mu.
func (k *Keyspace) mergeWindow(p *partition, key string, w *window.Window, limit int64) error {
	w, err := k.KeptWindow(w)
	if err != nil {
		return err
	}
	if key == "" {
		key = allKeys
	} else if p.gone[key] > 0 {
		return nil
	}
	newest, _ := w.Newest()
	if newest > limit {
		own := w.Clone()
		k.clock.NoteQuarantined(newest, w.Total(), limit)
		k.bytes.Add(int64(p.quarantine.Take(key, &own, limit)))
		return nil
	}
	k.clock.Advance(newest)
	if key == allKeys {
		before := p.total.Size()
		err := p.total.Merge(w)
		k.bytes.Add(int64(p.total.Size() - before))
		return err
	}
	hash := k.hash(key)
	en := p.table.Load().Find(hash, key)
	if en == nil {
		en = p.insert(hash, key)
	}
	before := en.Value.window.Size()
	err = en.Value.window.Merge(w)
	p.grew(int64(en.Value.window.Size() - before))
	return err
}

// KeptWindow is a window with the engine's retention.
func (k *Keyspace) KeptWindow(w *window.Window) (*window.Window, error) {
	if w.Retention() == k.empty.Retention() {
		return w, nil
	}
	kept, _, err := w.WithRetention(k.empty.Retention())
	return &kept, err
}

// MergeEvicted adds hits of evicted keys that come from a journal.
func (k *Keyspace) MergeEvicted(number int, list []replication.Evicted) {
	p := &k.partitions[number]
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range list {
		p.addEvicted(f)
	}
}

// Clear forgets all hits of a partition at a place of a journal: see replication.Engine.Clear.
func (k *Keyspace) Clear(number int, own []replication.Delta) {
	k.parted.Store(true) // allKeys' own counter has what is cleared
	p := &k.partitions[number]
	p.mu.Lock()
	defer p.mu.Unlock()
	limit := p.look()
	p.letGo()
	k.bytes.Add(-int64(p.quarantine.Forget()))
	k.bytes.Add(int64(k.empty.Size() - p.total.Size()))
	p.total = k.empty
	k.bytes.Add(-p.evicted.Forget())
	p.evictedOfAll.Forget()
	for _, list := range [][]replication.Delta{own, p.deltas} {
		for _, d := range list {
			hash := k.hash(d.Key)
			en := p.table.Load().Find(hash, d.Key)
			switch {
			case d.N > 0 && d.At > limit:
				p.quarantineHits(d.Key, d.At, d.N, limit)
				continue
			case d.N == 0:
				p.dropQuarantined(d.Key)
			}
			switch {
			case d.N == 0 && en != nil:
				p.remove(en)
			case d.N > 0 && en == nil:
				p.addSettled(p.insert(hash, d.Key), d.At, d.N)
			case d.N > 0:
				p.addSettled(en, d.At, d.N)
			}
		}
	}
	p.settleTotal(own, limit) // the others with their cut
}

// EmptyWindow is one with the engine's retention.
func (k *Keyspace) EmptyWindow() window.Window { return k.empty }
