package keyspace

import (
	"errors"
	"slices"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/window"
)

// Cut moves the partition's new hits into c, with its state if withState: see engine.Engine.Cut. limits does the same
// for the partition's limits, before the partition may change again. It gets the writer of the state, or nil.
func (k *Keyspace) Cut(number int, c *replication.Cut, withState bool, limits func(w *replication.StateWriter)) {
	p := &k.partitions[number]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutDeltas(c)
	c.State = c.State[:0]
	if withState {
		w := p.state(c.State, len(k.partitions), number)
		limits(w)
		w.Distinct(p.sets)
		c.State = w.Seal()
	} else {
		limits(nil)
	}
	k.makeSpace(p)
}

// cutDeltas moves the new hits into c. The caller holds mu.
func (p *partition) cutDeltas(c *replication.Cut) {
	held := !p.away.Load()
	limit := p.look()
	if held {
		p.cutCells()
	} else {
		p.letGo()
	}
	c.Deltas, p.deltas = p.deltas, c.Deltas[:0]
	c.Past, p.past, p.pastCompactAt = p.past, c.Past[:0], 0
	if p.removed != nil {
		p.removed = nil
		p.removals.Store(0)
	}
	c.PastRemoved, p.pastRemoved = p.pastRemoved, c.PastRemoved[:0]
	c.Distinct = p.cutIDs()
	p.bytes = 0
	for _, en := range p.active { // each may have hits again before anybody counts them as waiting
		p.bytes += waitingBytes(en.Key())
	}
	p.tell()
	if held {
		p.settleTotal(c.Deltas, limit)
	}
}

// cutBlock is how many entries cutCells looks at together.
const cutBlock = 64

// cutCells settles the hits in live cells. An entry without a recent hit is a cache miss, and these misses are most of
// the cost of a cut. So cutCells loads the words of a block of entries, then empties the cells, then settles. The
// processor then waits for many entries at once.
//
// A key that was hit is likely hit again before the next cut. Its cell stays at its second, and its entry stays listed,
// so that this hit takes no lock. The caller holds mu.
func (p *partition) cutCells() {
	p.cuts++
	still := p.active[:0]
	p.deltas = slices.Grow(p.deltas, len(p.active))
	var words [cutBlock]uint64
	for block := range slices.Chunk(p.active, cutBlock) {
		for i, en := range block {
			words[i] = en.Value.cell.Word.Load()
		}
		for i, en := range block {
			if words[i] < Special { // and will be until mu is let go
				words[i] = en.Value.take(words[i])
			}
		}
		for i, en := range block {
			switch hot := p.shared.hot.find(en, words[i]); {
			case hot != nil && hot.cut == p.cuts: // listed twice
			case hot != nil:
				hot.cut = p.cuts
				hot.FoldAll(Idle, p.settler(en))
				still = append(still, en)
			case words[i] < Special && CellHits(words[i]) > 0:
				second, n := CellSecond(words[i]), CellHits(words[i])
				p.addSettled(en, second, n)
				p.deltas = append(p.deltas, replication.Delta{Key: en.Key(), At: second, N: n})
				if en.Value.cell.Word.Load() != Idle {
					still = append(still, en)
				}
			}
		}
	}
	p.kept = len(still)
	clear(p.active[len(still):])
	p.active = still
}

// take empties a live cell that had a word a moment ago, and returns the word that it has had
// now. The cell is idle after it unless it had hits at the key's newest second. The caller holds
// the partition's lock, and the word is not special.
func (c *counted) take(word uint64) uint64 {
	if CellHits(word) == 0 && c.cell.Word.CompareAndSwap(word, Idle) {
		return Idle
	}
	if newest, seen := c.window.Newest(); seen && newest > CellSecond(word) {
		return c.cell.Word.Swap(Idle)
	}
	return c.cell.Word.Swap(EmptiedCell(word))
}

// settleTotal counts deltas in the partition's share of allKeys.
func (p *partition) settleTotal(deltas []replication.Delta, limit int64) {
	before := p.total.Size()
	EachSecond(deltas, func(second int64, n uint64) {
		if second > limit {
			p.shared.bytes.Add(int64(p.quarantine.Settle(&p.shared.empty, allKeys, second, n, limit)))
			return
		}
		p.total.Settle(second, n)
	})
	p.shared.bytes.Add(int64(p.total.Size() - before))
}

// Apply counts deltas that come from a journal: see engine.Engine.Apply. Own hits that were cut while their partition was
// not held come here alone, because the engine has counted them.
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
	if !p.away.Load() { // else Hold frees memory once the partition is held
		k.makeSpace(p)
	}
}

// lookUpBlock is how many keys applyBlock looks up together.
const lookUpBlock = 64

// applyBlock counts some deltas. As in cutCells, one cache miss after the other would take most of the time. So it asks
// for the buckets of all keys, then for their entries, and only then counts. The caller holds mu.
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
			p.restoreIDs(d.Key, limit)
			clear(entries[i+1:]) // later deltas may refer to the entry that was removed
		default:
			p.dropQuarantined(d.Key)
		}
	}
}

// Retract takes own hits of a cut back: see engine.Engine.Retract.
func (k *Keyspace) Retract(number int, deltas []replication.Delta) {
	p := &k.partitions[number]
	p.mu.Lock()
	defer p.mu.Unlock()
	var passed map[string]int // removals in deltas that are before the next of them
	for _, d := range deltas {
		switch {
		case d.N == 0:
			if passed == nil {
				passed = map[string]int{}
			}
			passed[d.Key]++
			continue
		case p.gone[d.Key] > passed[d.Key]: // a removal of ours after it took it
			continue
		}
		left := d.N
		if en := p.table.Load().Find(k.hash(d.Key), d.Key); en != nil {
			before := en.Value.window.Size()
			left -= en.Value.window.Retract(d.At, left)
			p.grew(int64(en.Value.window.Size() - before))
		}
		k.bytes.Add(-int64(p.quarantine.Retract(d.Key, d.At, left)))
	}
	before := p.total.Size()
	EachSecond(deltas, func(second int64, n uint64) {
		n -= p.total.Retract(second, n)
		k.bytes.Add(-int64(p.quarantine.Retract(allKeys, second, n)))
	})
	k.bytes.Add(int64(p.total.Size() - before))
}

// restore counts own hits of a key again that come after its removal in the journal. The caller holds mu.
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

// Confirm reports that an own removal of a key, of a cut, came back from the journal. It may also report that nothing
// before the removal will be applied any more.
func (k *Keyspace) Confirm(number int, key string) {
	p := &k.partitions[number]
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone[key]--; p.gone[key] <= 0 {
		delete(p.gone, key)
	}
}

// MergeWindows adds windows that come from a journal: see engine.Engine.MergeWindows.
func (k *Keyspace) MergeWindows(number int, list []replication.KeyWindow) error {
	p := &k.partitions[number]
	p.mu.Lock()
	defer p.mu.Unlock()
	return k.mergeWindows(p, list, p.look())
}

// mergeWindows is MergeWindows. The caller holds mu.
func (k *Keyspace) mergeWindows(p *partition, list []replication.KeyWindow, limit int64) error {
	var errs []error
	for i := range list {
		errs = append(errs, k.mergeWindow(p, list[i].Key, &list[i].Window, limit))
	}
	if !p.away.Load() { // else Hold frees memory once the partition is held
		k.makeSpace(p)
	}
	return errors.Join(errs...)
}

// mergeWindow merges one. The caller holds mu.
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
		k.noteSampled(key)
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

// Clear forgets all hits of a partition that is held, at a place of a journal. Hits that no cut has stay. So does own:
// the own hits and removals that were cut and come after that place, in order. What keys have used of their limits
// stays. Windows and hits of evicted keys in then replace what is forgotten. No answer about the partition sees a state
// in between.
func (k *Keyspace) Clear(number int, own []replication.Delta, then []replication.Followed) error {
	k.parted.Store(true) // allKeys' own counter has what is cleared
	p := &k.partitions[number]
	p.mu.Lock()
	defer p.mu.Unlock()
	defer k.releases.Add(1)
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
	for key := range p.fresh {
		p.restoreIDs(key, limit)
	}
	p.settleTotal(own, limit) // the others with their cut
	var errs []error
	for i := range then {
		errs = append(errs, k.mergeWindows(p, then[i].Windows, limit))
		for _, f := range then[i].Evicted {
			p.addEvicted(f)
		}
		k.mergeDistinct(p, then[i].Distinct, limit)
	}
	return errors.Join(errs...)
}
