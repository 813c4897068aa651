package keyspace

import (
	"sync"
	"sync/atomic"

	"github.com/weir-counter/weir/internal/keytable"
	"github.com/weir-counter/weir/internal/live"
	"github.com/weir-counter/weir/internal/quarantine"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/internal/sketch"
	"github.com/weir-counter/weir/window"
)

// partition is a fixed share of the key space, the unit of everything: lock,
// memory, batch, snapshot and, later, ownership. Which keys it has depends on
// their hash alone and never changes.
type partition struct {
	shared *shared

	table *atomic.Pointer[keytable.Table[counted]] // in Keyspace.tables, read without the lock
	away  atomic.Bool                              // not held: windows have what no cut has, and total nothing (held.go)

	mu           sync.Mutex // guards all below, and the windows of the entries
	hand         int        // the bucket where the next search for cold keys begins
	evicted      sketch.Sketch
	evictedOfAll sketch.Hits        // that allKeys lacks: they had left under a shorter retention than now
	passing      int64              // bytes of keys, while the partition is not held
	quarantine   quarantine.Windows // hits of seconds that have not come (quarantine.go)
	looked       int64              // the last second that had come when the partition was looked after
	gathering                       // what the next batch has (gather.go)
	_            [64]byte
}

// insert makes the entry of a key that is not in the table. The caller holds mu.
func (p *partition) insert(hash uint64, key string) *entry {
	en := keytable.New[counted](key)
	en.Value.window = p.shared.empty
	en.Value.cell.Word.Store(live.Idle)
	t := p.table.Load()
	if t.Full() {
		t = p.resize()
	}
	t.Insert(hash, en)
	p.shared.keys.Add(1)
	p.grew(keyBytes(en) + int64(en.Value.window.Size()))
	return en
}

// add counts n hits at a second where the entry's live cell does not stand, or
// that it can't hold. The cell is not special, and the caller holds mu.
func (p *partition) add(en *entry, second int64, n uint64) window.Outcome {
	word := en.Value.cell.Word.Load()
	newest, seen := en.Value.newest(word)
	late := seen && second < newest
	switch {
	case seen && second <= newest-en.Value.window.Retention():
		if limit := p.shared.clock.Limit(); newest > limit { // the clock has run back
			p.quarantineWindow(en, limit)
			return p.add(en, second, n)
		}
		return window.TooLate
	case late && (live.Hits(word) > 0 || n > live.MaxHits): // the cell is of a newer second
		p.settle(en, second, n)
	case n > live.MaxHits:
		live.Settle(en.Value.cell.Word.Swap(live.Idle), p.settler(en))
		p.settle(en, second, n)
	default:
		p.activate(en, word)
		live.Settle(en.Value.cell.Word.Swap(live.Pack(second, late, n)), p.settler(en))
	}
	if late {
		return window.Late
	}
	return window.Counted
}

// settle puts hits into the entry's window, and into the next batch. All hits
// pass here once, when they leave the live cell or had no place in it. The
// caller holds mu.
func (p *partition) settle(en *entry, second int64, n uint64) {
	p.addSettled(en, second, n)
	p.gather(replication.Delta{Key: en.Key(), At: second, N: n})
}

// addSettled puts hits into the entry's window. The caller holds mu.
func (p *partition) addSettled(en *entry, second int64, n uint64) {
	before := en.Value.window.Size()
	en.Value.window.Settle(second, n)
	if grown := en.Value.window.Size() - before; grown != 0 {
		p.grew(int64(grown))
	}
}

func (p *partition) settler(en *entry) func(second int64, n uint64) {
	return func(second int64, n uint64) { p.settle(en, second, n) }
}

// remove takes an entry out of the table for good: a hit that still holds it
// finds its cell dead and looks the key up again. It returns the hits that the
// entry had and the second of the newest. The caller holds mu.
func (p *partition) remove(en *entry) (total uint64, newest int64) {
	p.cool(en, live.Dead)
	live.Settle(en.Value.cell.Word.Swap(live.Dead), p.settler(en))
	t := p.table.Load()
	t.Remove(p.shared.hash(en.Key()), en)
	p.shared.keys.Add(-1)
	p.grew(-keyBytes(en) - int64(en.Value.window.Size()))
	if t.Sparse() {
		p.resize()
	}
	newest, _ = en.Value.window.Newest()
	total = en.Value.window.Total()
	en.Value.window = p.shared.empty // who still has the key keeps the entry in memory, but nothing else
	return total, newest
}

// keys is how many there are. The caller holds mu.
func (p *partition) keys() int { return p.table.Load().Len() }

// resize replaces a table that is full, or sparse, by one of another size. Readers of the old one
// see the entries that were there; the caller holds mu.
func (p *partition) resize() *keytable.Table[counted] {
	old := p.table.Load()
	t := old.Resized(func(en *entry) uint64 { return p.shared.hash(en.Key()) })
	p.table.Store(t)
	p.hand = 0
	p.grew(t.Bytes() - old.Bytes())
	return t
}

// count answers for one entry. The caller holds mu.
func (p *partition) count(en *entry, at, seconds int64) window.Count {
	c := en.Value.window.Count(at, seconds).Plus(window.Exactly(p.live(en, at-seconds, at)))
	if p.quarantine.Empty() {
		return c
	}
	return c.Plus(p.quarantine.Count(en.Key(), at, seconds))
}
