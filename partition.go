package weir

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-counter/weir/window"
)

// partition is a fixed share of the key space, the unit of everything: lock,
// memory, batch, snapshot and, later, ownership. Which keys it has depends on
// their hash alone and never changes.
type partition struct {
	table atomic.Pointer[table] // read without the lock
	away  atomic.Bool           // not held: windows have what no cut has, and total nothing (held.go)

	mu        sync.Mutex // guards all below, and the windows of the entries
	keys      int
	hand      int // the bucket where the next search for cold keys begins
	forgotten forgotten
	passing   int64 // bytes of keys, while the partition is not held
	ahead     ahead // hits of seconds that have not come (ahead.go)
	looked    int64 // the last second that had come when the partition was looked after
	gathering       // what the next batch has (gather.go)
	_         [64]byte
}

// insert makes the entry of a key that is not in the table. The caller holds mu.
func (p *partition) insert(e *Engine, hash uint64, key string) *entry {
	en := &entry{key: strings.Clone(key), window: e.emptyWindow}
	en.cell.word.Store(cellIdle)
	t := p.table.Load()
	if p.keys >= len(t.buckets)*maxLoad {
		t = p.rebuild(e, 2*len(t.buckets))
	}
	t.insert(hash, en)
	p.keys++
	e.keys.Add(1)
	p.grew(e, keyBytes(en.key)+int64(en.window.Size()))
	return en
}

// add counts n hits at a second where the entry's live cell does not stand, or
// that it can't hold. The cell is not special, and the caller holds mu.
func (p *partition) add(e *Engine, en *entry, second int64, n uint64) Outcome {
	word := en.cell.word.Load()
	newest, seen := en.newest(word)
	late := seen && second < newest
	switch {
	case seen && second <= newest-en.window.Retention():
		if limit := e.clock.limit(); newest > limit { // the clock has run back
			p.setAside(e, en, limit)
			return p.add(e, en, second, n)
		}
		return TooLate
	case late:
		p.settle(e, en, second, n)
	case n > cellMaxHits:
		settleWord(en.cell.word.Swap(cellIdle), p.settler(e, en))
		p.settle(e, en, second, n)
	default:
		p.activate(e, en, word)
		settleWord(en.cell.word.Swap(packCell(second, false, n)), p.settler(e, en))
	}
	if late {
		return Late
	}
	return Counted
}

// settle puts hits into the entry's window, and into the next batch. All hits
// pass here once, when they leave the live cell or had no place in it. The
// caller holds mu.
func (p *partition) settle(e *Engine, en *entry, second int64, n uint64) {
	p.addSettled(e, en, second, n)
	p.gather(e, Delta{en.key, second, n})
}

// addSettled puts hits into the entry's window. The caller holds mu.
func (p *partition) addSettled(e *Engine, en *entry, second int64, n uint64) {
	before := en.window.Size()
	en.window.Settle(second, n)
	if grown := en.window.Size() - before; grown != 0 {
		p.grew(e, int64(grown))
	}
}

func (p *partition) settler(e *Engine, en *entry) func(second int64, n uint64) {
	return func(second int64, n uint64) { p.settle(e, en, second, n) }
}

// remove takes an entry out of the table for good: a hit that still holds it
// finds its cell dead and looks the key up again. It returns the hits that the
// entry had and the second of the newest. The caller holds mu.
func (p *partition) remove(e *Engine, en *entry) (total uint64, newest int64) {
	e.cool(p, en, cellDead)
	settleWord(en.cell.word.Swap(cellDead), p.settler(e, en))
	t := p.table.Load()
	t.remove(e.hash(en.key), en)
	p.keys--
	e.keys.Add(-1)
	p.grew(e, -keyBytes(en.key)-int64(en.window.Size()))
	if p.keys < len(t.buckets)*maxLoad/8 && len(t.buckets) > 1 {
		p.rebuild(e, len(t.buckets)/2)
	}
	newest, _ = en.window.Newest()
	return en.window.Total(), newest
}

// rebuild replaces the table by one of another size. Readers of the old one see
// the entries that were there; the caller holds mu.
func (p *partition) rebuild(e *Engine, buckets int) *table {
	old, t := p.table.Load(), newTable(buckets)
	old.each(func(en *entry) { t.insert(e.hash(en.key), en) })
	p.table.Store(t)
	p.hand = 0
	p.grew(e, t.size()-old.size())
	return t
}

// count answers for one entry. The caller holds mu.
func (p *partition) count(e *Engine, en *entry, at, seconds int64) Count {
	c := en.window.Count(at, seconds).Plus(window.Exactly(e.live(en, at-seconds, at)))
	if p.ahead.empty() {
		return c
	}
	return c.Plus(p.ahead.count(en.key, at, seconds))
}
