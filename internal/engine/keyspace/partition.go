package keyspace

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/window"
)

// partition is a fixed share of the key space, the unit of everything: lock, memory, batch, snapshot and, later,
// ownership. Which keys it has depends on their hash alone and never changes.
type partition struct {
	shared *shared

	table *atomic.Pointer[KeyTable[counted]] // in Keyspace.tables, read without the lock
	away  atomic.Bool                        // not held: windows have what no cut has, and total nothing (held.go)

	mu           sync.Mutex // guards all below, and the windows of the entries
	hand         int        // the bucket where the next search for cold keys begins
	evicted      replication.Sketch
	evictedOfAll replication.SketchHits // that allKeys lacks: they had left under a shorter retention than now
	passing      int64                  // bytes of keys, while the partition is not held
	quarantine   Quarantine             // hits of seconds that have not come (quarantine.go)
	looked       int64                  // the last second that had come when the partition was looked after
	ids
	gathering // what the next batch has (held.go)
	_         [64]byte
}

// insert makes the entry of a key that is not in the table. The caller holds mu.
func (p *partition) insert(hash uint64, key string) *entry {
	en := NewEntry[counted](key)
	en.Value.window = p.shared.empty
	en.Value.cell.Word.Store(Idle)
	t := p.table.Load()
	if t.Full() {
		t = p.resize()
	}
	t.Insert(hash, en)
	p.shared.keys.Add(1)
	p.shared.noteSampled(key)
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
	case late && (CellHits(word) > 0 || n > MaxCellHits): // the cell has a newer second
		p.settle(en, second, n)
	case n > MaxCellHits:
		SettleCell(en.Value.cell.Word.Swap(Idle), p.settler(en))
		p.settle(en, second, n)
	default:
		p.activate(en, word)
		SettleCell(en.Value.cell.Word.Swap(PackCell(second, late, n)), p.settler(en))
	}
	if late {
		return window.Late
	}
	return window.Counted
}

// settle puts hits into the entry's window, and into the next batch. All hits pass here once, when they leave the live
// cell or had no place in it. The caller holds mu.
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

// remove takes an entry out of the table for good. A hit that still holds the entry finds its cell dead and looks the
// key up again. It returns the hits that the entry had and the second of the newest. The caller holds mu.
func (p *partition) remove(en *entry) (total uint64, newest int64) {
	p.cool(en, Dead)
	SettleCell(en.Value.cell.Word.Swap(Dead), p.settler(en))
	t := p.table.Load()
	t.Remove(p.shared.hash(en.Key()), en)
	p.shared.keys.Add(-1)
	p.forgetIDs(en.Key())
	p.grew(-keyBytes(en) - int64(en.Value.window.Size()))
	if t.Sparse() {
		p.resize()
	}
	newest, _ = en.Value.window.Newest()
	total = en.Value.window.Total()
	en.Value.window = p.shared.empty // a caller that still has the key keeps the entry in memory, but nothing else
	return total, newest
}

// keys is how many there are. The caller holds mu.
func (p *partition) keys() int { return p.table.Load().Len() }

// resize replaces a table that is full, or sparse, by one of another size. Readers of the old one
// see the entries that were there; the caller holds mu.
func (p *partition) resize() *KeyTable[counted] {
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

// state begins the partition's state after b: all but its limits. All live cells are empty, and the caller holds mu.
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
		if newest, ok := en.Value.window.Newest(); ok { // the newest second of a key that is counted separately may be after all others
			k.clock.Advance(newest)
		}
	}
	for i := range s.Quarantined {
		a := &s.Quarantined[i]
		newest, _ := a.Window.Newest()
		k.clock.NoteQuarantined(newest, a.Window.Total(), limit)
		k.noteSampled(a.Key)
		k.bytes.Add(int64(p.quarantine.Take(a.Key, &a.Window, limit)))
	}
	p.quarantineAll(limit)
	p.merge(limit)
	for _, d := range s.Distinct {
		p.mergeIDs(d.Key, d.Set, limit)
	}
	if newest, ok := p.total.Newest(); ok {
		k.clock.Advance(newest)
	}
	if !p.away.Load() { // else Hold frees memory
		k.makeSpaceForIDs(p)
	}
	return nil
}

// HasKeys reports whether a partition has any.
func (k *Keyspace) HasKeys(number int) bool {
	p := &k.partitions[number]
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys() > 0
}

// evictTries is how many other partitions one hit may evict from.
const evictTries = 32

// makeSpace evicts keys while the memory budget is exceeded. It evicts cold keys of this partition, whose lock the
// caller holds. Once only one key is left in it, it evicts keys of other partitions that are not locked just now.
// Hashing spreads keys evenly, so the coldest keys of a partition stand for the coldest of all.
func (k *Keyspace) makeSpace(p *partition) {
	if p.away.Load() {
		p.makeSpaceToPass()
		return
	}
	if k.overBudget() {
		k.evictAround(p, (*shared).overBudget, (*partition).evictCold)
	}
}

// evictAround has a partition evict, and then others, until it is enough.
func (k *Keyspace) evictAround(p *partition, over func(*shared) bool, evict func(p *partition, leave int)) {
	evict(p, 1)
	first := int(k.evictNext.Add(evictTries))
	for i := range min(evictTries, len(k.partitions)) {
		if !over(&k.shared) {
			return
		}
		if other := &k.partitions[(first+i)%len(k.partitions)]; other != p && other.mu.TryLock() {
			evict(other, 0)
			other.mu.Unlock()
		}
	}
}

// makeSpaceEvenly evicts from all partitions alike, after one was taken.
func (k *Keyspace) makeSpaceEvenly() {
	for again := true; again; {
		again = false
		for i := range k.partitions {
			p := &k.partitions[i]
			p.mu.Lock()
			if k.overBudget() {
				if !p.quarantine.Empty() {
					p.evictQuarantined()
				}
				if !p.away.Load() && p.keys() > 1 {
					p.evictSome(1)
					again = true
				}
			}
			if k.overIDs() && !p.away.Load() && p.evictSomeIDs(1) {
				again = true
			}
			p.mu.Unlock()
		}
	}
}

// waiting is what an engine took and no cut has yet, and how much of it there may be.
type waiting struct {
	entries atomic.Int64 // deltas and filled live cells
	bytes   atomic.Int64 // what they take in batches, at most
	bound   atomic.Pointer[waitingBound]
}

// waitingBound is what BoundWaiting said last.
type waitingBound struct {
	bytes int64
	why   string
}

// entryBytes is the most that an entry of a batch takes, without its key.
const entryBytes = 24

func waitingBytes(key string) int { return len(key) + entryBytes }

func bytesOf(deltas []replication.Delta) (n int) {
	for _, d := range deltas {
		n += waitingBytes(d.Key)
	}
	return n
}

// BoundWaiting bounds what may wait for Cut, in bytes of batches, in addition to Config.MaxWaiting. Above the bound,
// hits and removals are refused with api.CodeOverloaded, and why. Below 0 all are refused. It may be changed at any
// time; until the first call there is no such bound.
//
// With it a journal refuses hits that it could not keep, before they are counted.
func (s *shared) BoundWaiting(bytes int64, why string) {
	w := &s.waiting
	if was := w.bound.Load(); was == nil || *was != (waitingBound{bytes, why}) {
		w.bound.Store(&waitingBound{bytes, why})
	}
}

// Crowded reports whether too much waits for a cut.
func (s *shared) Crowded() bool { return s.waiting.tooMuch(s.maxWaiting) }

func (w *waiting) tooMuch(most int64) bool {
	if w.entries.Load() > most {
		return true
	}
	bound := w.bound.Load()
	return bound != nil && w.bytes.Load() > bound.bytes
}

// WhyCrowded is why hits are refused while too much waits; "": it is the number of entries.
func (s *shared) WhyCrowded() string {
	if bound := s.waiting.bound.Load(); bound != nil && s.waiting.bytes.Load() > bound.bytes {
		return bound.why
	}
	return ""
}

// shared is what the partitions of a keyspace have in common. It knows none of them.
type shared struct {
	gather     bool  // new hits are kept for cuts
	memory     int64 // the budget, bytes
	maxWaiting int64 // entries that may wait for a cut
	clock      *Clock
	empty      window.Window // of the engine's retention
	seed       maphash.Seed  // of the tables; not of the partitions
	hot        hotKeys
	waiting    waiting
	sampled    atomic.Bool // some key has a companion (read.go)

	_         [64]byte // each hit reads what is before and after, and must not wait for the line of what changes
	departed  departures
	idFigures idFigures
	keys      atomic.Int64
	bytes     atomic.Int64 // of tables, entries and windows
	pastUntil atomic.Int64 // Unix ms until which hits were taken for history alone (read.go)
	passing   atomic.Int64 // of these: keys of partitions that are not held
	_         [64]byte
}

// departures count keys that left, and the hits that evicted keys had.
type departures struct{ evictedKeys, evictedHits, expiredKeys atomic.Uint64 }

// hash places a key in its partition's table. It is seeded: nobody can choose keys that collide.
func (s *shared) hash(key string) uint64 { return maphash.String(s.seed, key) }

// overBudget reports whether the keys that are held take more than the budget. Those that
// pass through do not count: no key is evicted for their sake.
func (s *shared) overBudget() bool {
	return s.bytes.Load()-s.passing.Load() > s.memory
}
