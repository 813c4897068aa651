package keyspace

import (
	"github.com/weir-counter/weir/internal/live"
	"github.com/weir-counter/weir/window"
)

// Hit counts n hits of a key at a second that was checked.
func (k *Keyspace) Hit(second int64, key Expected, n uint64) window.Outcome {
	p := &k.partitions[key.partition]
	for lost := 0; ; {
		en := k.tables[key.partition].Load().Find(key.hash, key.key)
		if en == nil {
			if outcome, ok := k.hitNew(second, key, n); ok {
				return outcome
			}
			continue
		}
		word := en.Value.cell.Word.Load()
		if live.Fits(word, second, n) {
			if en.Value.cell.Word.CompareAndSwap(word, word+n) {
				return live.OutcomeOf(word)
			}
			if lost++; lost == hotAfter {
				p.mu.Lock()
				p.heat(en)
				p.mu.Unlock()
			}
			continue
		}
		var mine *live.Cell
		hot := k.hot.of(en, word)
		if hot != nil {
			mine = hot.Mine()
			if outcome, ok := hot.Add(&mine, second, n); ok {
				return outcome
			}
		}
		if outcome, ok := k.fold(p, en, hot, mine, second, n); ok {
			return outcome
		}
	}
}

// hitNew makes the entry of a new key, unless another goroutine just did.
func (k *Keyspace) hitNew(second int64, key Expected, n uint64) (window.Outcome, bool) {
	p := &k.partitions[key.partition]
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.table.Load().Find(key.hash, key.key) != nil {
		return window.Refused, false
	}
	outcome := p.add(p.insert(key.hash, key.key), second, n)
	k.makeRoom(p)
	return outcome, true
}

// fold counts a hit at another second than the live cell's, or one that the cell
// can't hold, under the lock; was and mine are the hot key and the goroutine's
// cell, if the key was hot before. It fails if the entry has changed its kind, or
// left the table.
func (k *Keyspace) fold(p *partition, en *entry, was *hotKey, mine *live.Cell, second int64, n uint64) (outcome window.Outcome, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	word := en.Value.cell.Word.Load()
	switch hot := k.hot.of(en, word); {
	case word < live.Special:
		outcome = p.add(en, second, n)
	case hot != nil && hot == was:
		if outcome = hot.Fold(mine, &en.Value.window, second, n, p.settler(en)); outcome == window.TooLate {
			if limit := k.clock.Limit(); p.newestOf(en) > limit { // the clock has run back
				p.quarantineWindow(en, limit)
				outcome = hot.Fold(hot.Mine(), &en.Value.window, second, n, p.settler(en))
			}
		}
	default:
		return window.Refused, false
	}
	k.makeRoom(p)
	return outcome, true
}

// Has tells whether there is a key, or its partition is held elsewhere. O(1), takes no lock.
func (k *Keyspace) Has(key string) bool {
	p := k.partition(key)
	return p.away.Load() || p.table.Load().Find(k.hash(key), key) != nil
}
