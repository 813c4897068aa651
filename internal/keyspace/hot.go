package keyspace

import (
	"math"
	"sync/atomic"

	"github.com/weir-counter/weir/internal/live"
)

// hotKeys are the keys that several cores hit at once. Such a key's live cell
// gives way to stripes: the cell's word becomes special and holds the number of
// the key's place here.
type hotKeys struct {
	places [maxHotKeys]atomic.Pointer[hotKey]
	count  atomic.Int64
}

type hotKey struct {
	*live.Stripes
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
	if word < live.Special || word == live.Dead {
		return nil
	}
	if hot := h.places[word&^live.Special].Load(); hot != nil && hot.owner == en {
		return hot
	}
	return nil
}

// heat gives an entry stripes, if a place is free. The caller holds p.mu.
func (p *partition) heat(en *entry) {
	if en.Value.cell.Word.Load() >= live.Special || p.shared.hot.count.Load() >= maxHotKeys {
		return
	}
	hot := &hotKey{Stripes: live.NewStripes(), owner: en}
	for place := range p.shared.hot.places {
		if p.shared.hot.places[place].Load() == nil && p.shared.hot.places[place].CompareAndSwap(nil, hot) {
			p.shared.hot.count.Add(1)
			p.activate(en, en.Value.cell.Word.Load())
			live.Settle(en.Value.cell.Word.Swap(live.Special|uint64(place)), p.settler(en))
			return
		}
	}
}

// cool gives the entry its single cell back, with the word leave: live.Idle or
// live.Dead. The caller holds p.mu.
func (p *partition) cool(en *entry, leave uint64) {
	word := en.Value.cell.Word.Load()
	hot := p.shared.hot.of(en, word)
	if hot == nil {
		return
	}
	en.Value.cell.Word.Store(leave)
	hot.FoldAll(live.Dead, p.settler(en)) // whoever still holds the stripes can't add
	p.shared.hot.places[word&^live.Special].Store(nil)
	p.shared.hot.count.Add(-1)
}

// coolAfter is how old a stripe's second may be, in seconds, for the stripe to
// count as busy.
const coolAfter = 10

// live sums the entry's hits in the window (from, to] that are not yet folded.
// The caller holds the partition's lock.
func (p *partition) live(en *entry, from, to int64) uint64 {
	word := en.Value.cell.Word.Load()
	if hot := p.shared.hot.of(en, word); hot != nil {
		return hot.Live(from, to)
	}
	return en.Value.cell.Live(from, to)
}

// newestOf is the second of an entry's newest hit. The caller holds the
// partition's lock.
func (p *partition) newestOf(en *entry) int64 {
	word := en.Value.cell.Word.Load()
	second, seen := en.Value.newest(word)
	if hot := p.shared.hot.of(en, word); hot != nil {
		second, seen = hot.Newest(&en.Value.window)
	}
	if !seen {
		return math.MinInt64
	}
	return second
}

// CoolDown cools the keys that fewer than two stripes were hit of lately.
func (k *Keyspace) CoolDown() {
	lately := k.clock.Now() - coolAfter
	for place := range k.hot.places {
		hot := k.hot.places[place].Load()
		if hot == nil {
			continue
		}
		if hot.Busy(lately) < 2 {
			p := k.partition(hot.owner.Key())
			p.mu.Lock()
			p.cool(hot.owner, live.Idle)
			p.mu.Unlock()
		}
	}
}
