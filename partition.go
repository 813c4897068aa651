package weir

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-counter/weir/window"
)

// partition is a fixed share of the key space, the unit of everything: lock,
// memory and, later, batch, snapshot and ownership. Which keys it has depends on
// their hash alone and never changes.
type partition struct {
	table atomic.Pointer[table] // read without the lock

	mu   sync.Mutex // guards all below, and the windows of the entries
	keys int
	hand int // the bucket where the next search for cold keys begins
	_    [64]byte
}

// insert makes the entry of a key that is not in the table, with n hits in its
// live cell. The caller holds mu.
func (p *partition) insert(e *Engine, hash uint64, key string, second int64, n uint64) {
	en := &entry{key: strings.Clone(key), window: e.emptyWindow}
	en.add(second, n)
	t := p.table.Load()
	if p.keys >= len(t.buckets)*maxLoad {
		t = p.rebuild(e, 2*len(t.buckets))
	}
	t.insert(hash, en)
	p.keys++
	e.keys.Add(1)
	e.bytes.Add(keyBytes(en.key) + int64(en.window.Size()))
}

// remove takes an entry out of the table for good: a hit that still holds it
// finds its cell dead and looks the key up again. It returns the hits that the
// entry had and the second of the newest. The caller holds mu.
func (p *partition) remove(e *Engine, en *entry) (total uint64, newest int64) {
	before := int64(en.window.Size())
	e.kill(en)
	newest, _ = en.window.Newest()
	t := p.table.Load()
	t.remove(e.hash(en.key), en)
	p.keys--
	e.keys.Add(-1)
	e.bytes.Add(-keyBytes(en.key) - before)
	if p.keys < len(t.buckets)*maxLoad/8 && len(t.buckets) > 1 {
		p.rebuild(e, len(t.buckets)/2)
	}
	return en.window.Total(), newest
}

// rebuild replaces the table by one of another size. Readers of the old one see
// the entries that were there; the caller holds mu.
func (p *partition) rebuild(e *Engine, buckets int) *table {
	old, t := p.table.Load(), newTable(buckets)
	old.each(func(en *entry) { t.insert(e.hash(en.key), en) })
	p.table.Store(t)
	p.hand = 0
	e.bytes.Add(t.size() - old.size())
	return t
}

// count answers for one entry. The caller holds mu.
func (p *partition) count(e *Engine, en *entry, at, seconds int64) Count {
	return en.window.Count(at, seconds).Plus(window.Exactly(e.live(en, at-seconds, at)))
}
