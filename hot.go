package weir

import (
	"math"
	"sync/atomic"
)

// hotKeys are the keys that several cores hit at once. Such a key's live cell
// gives way to stripes: the cell's word becomes special and holds the number of
// the key's place here.
type hotKeys struct {
	places [maxHotKeys]atomic.Pointer[hotKey]
	count  atomic.Int64
}

type hotKey struct {
	*stripes
	owner *entry
	cut   uint64 // the partition's cut that took its hits last; guarded by its lock
}

const (
	// maxHotKeys bounds the memory of stripes; further keys stay with one cell.
	maxHotKeys = 1024

	// hotAfter is how many times one hit loses the race for a cell before the
	// key counts as hot.
	hotAfter = 3
)

// of returns the hot key that an entry's word names, or nil if the word is not
// special, dead, or outdated so that the place has another key now.
func (h *hotKeys) of(en *entry, word uint64) *hotKey {
	if word < cellSpecial || word == cellDead {
		return nil
	}
	if hot := h.places[word&^cellSpecial].Load(); hot != nil && hot.owner == en {
		return hot
	}
	return nil
}

// heat gives an entry stripes, if a place is free. The caller holds p.mu.
func (e *Engine) heat(p *partition, en *entry) {
	if en.cell.word.Load() >= cellSpecial || e.hot.count.Load() >= maxHotKeys {
		return
	}
	hot := &hotKey{stripes: newStripes(), owner: en}
	for place := range e.hot.places {
		if e.hot.places[place].Load() == nil && e.hot.places[place].CompareAndSwap(nil, hot) {
			e.hot.count.Add(1)
			p.activate(e, en, en.cell.word.Load())
			settleWord(en.cell.word.Swap(cellSpecial|uint64(place)), p.settler(e, en))
			return
		}
	}
}

// cool gives the entry its single cell back, with the word leave: cellIdle or
// cellDead. The caller holds p.mu.
func (e *Engine) cool(p *partition, en *entry, leave uint64) {
	word := en.cell.word.Load()
	hot := e.hot.of(en, word)
	if hot == nil {
		return
	}
	en.cell.word.Store(leave)
	hot.foldAll(cellDead, p.settler(e, en)) // whoever still holds the stripes can't add
	e.hot.places[word&^cellSpecial].Store(nil)
	e.hot.count.Add(-1)
}

// coolAfter is how old a stripe's second may be, in seconds, for the stripe to
// count as busy.
const coolAfter = 10

// coolDown cools the keys that fewer than two stripes were hit of lately.
func (e *Engine) coolDown() {
	lately := e.clock.now() - coolAfter
	for place := range e.hot.places {
		hot := e.hot.places[place].Load()
		if hot == nil {
			continue
		}
		busy := 0
		for i := range hot.cells {
			if word := hot.cells[i].word.Load(); word < cellSpecial && cellHits(word) > 0 && cellSecond(word) >= lately {
				busy++
			}
		}
		if busy < 2 {
			p := e.partition(hot.owner.key)
			p.mu.Lock()
			e.cool(p, hot.owner, cellIdle)
			p.mu.Unlock()
		}
	}
}

// live sums the entry's hits in the window (from, to] that are not yet folded.
// The caller holds the partition's lock.
func (e *Engine) live(en *entry, from, to int64) uint64 {
	word := en.cell.word.Load()
	if hot := e.hot.of(en, word); hot != nil {
		return hot.live(from, to)
	}
	return en.cell.live(from, to)
}

// newestOf is the second of an entry's newest hit. The caller holds the
// partition's lock.
func (e *Engine) newestOf(en *entry) int64 {
	word := en.cell.word.Load()
	second, seen := en.newest(word)
	if hot := e.hot.of(en, word); hot != nil {
		second, seen = hot.newest(&en.window)
	}
	if !seen {
		return math.MinInt64
	}
	return second
}
