package keyspace

import (
	"math"
	"slices"
	"sync/atomic"
	"unsafe"

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
		if CellFits(word, second, n) {
			if en.Value.cell.Word.CompareAndSwap(word, word+n) {
				return CellOutcome(word)
			}
			if lost++; lost == hotAfter {
				p.mu.Lock()
				p.heat(en)
				p.mu.Unlock()
			}
			continue
		}
		var mine *Cell
		hot := k.hot.find(en, word)
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
	k.makeSpace(p)
	return outcome, true
}

// fold counts, under the lock, a hit that the live cell can't take: a hit at another second, or too many hits. The
// arguments was and mine are the hot key and the goroutine's cell, if the key was hot before. It fails if the entry has
// changed its kind, or left the table.
func (k *Keyspace) fold(p *partition, en *entry, was *hotKey, mine *Cell, second int64, n uint64) (outcome window.Outcome, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	word := en.Value.cell.Word.Load()
	switch hot := k.hot.find(en, word); {
	case word < Special:
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
	k.makeSpace(p)
	return outcome, true
}

// Has reports whether a key is in memory: it was hit, and was neither evicted nor deleted, nor is its retention over. Of
// a partition that is held elsewhere it is always true. O(1), takes no lock.
func (k *Keyspace) Has(key string) bool {
	p := k.partition(key)
	return p.away.Load() || p.table.Load().Find(k.hash(key), key) != nil
}

// hotKeys are the keys that several cores hit at once. Such a key's live cell gives way to stripes: the cell's word
// becomes special and holds the number of the key's place here.
type hotKeys struct {
	places [maxHotKeys]atomic.Pointer[hotKey]
	count  atomic.Int64
}

type hotKey struct {
	*Stripes
	owner *entry
	cut   uint64 // the partition's cut that took its hits last; guarded by its lock
}

const (
	// maxHotKeys bounds the memory of stripes; further keys stay with one cell.
	maxHotKeys = 1024

	// hotAfter is how many times one hit loses the race for a cell before the key counts as hot.
	hotAfter = 3
)

// find returns the hot key that an entry's word names. It returns nil if the word is not special, dead, or outdated
// because the place has another key now.
func (h *hotKeys) find(en *entry, word uint64) *hotKey {
	if word < Special || word == Dead {
		return nil
	}
	if hot := h.places[word&^Special].Load(); hot != nil && hot.owner == en {
		return hot
	}
	return nil
}

// heat gives an entry stripes, if a place is free. The caller holds p.mu.
func (p *partition) heat(en *entry) {
	if en.Value.cell.Word.Load() >= Special || p.shared.hot.count.Load() >= maxHotKeys {
		return
	}
	hot := &hotKey{Stripes: NewStripes(), owner: en}
	for place := range p.shared.hot.places {
		if p.shared.hot.places[place].Load() == nil && p.shared.hot.places[place].CompareAndSwap(nil, hot) {
			p.shared.hot.count.Add(1)
			p.activate(en, en.Value.cell.Word.Load())
			SettleCell(en.Value.cell.Word.Swap(Special|uint64(place)), p.settler(en))
			return
		}
	}
}

// cool gives the entry its single cell back, with the word leave: Idle or Dead. The caller holds p.mu.
func (p *partition) cool(en *entry, leave uint64) {
	word := en.Value.cell.Word.Load()
	hot := p.shared.hot.find(en, word)
	if hot == nil {
		return
	}
	en.Value.cell.Word.Store(leave)
	hot.FoldAll(Dead, p.settler(en)) // goroutines that still hold the stripes can't add
	p.shared.hot.places[word&^Special].Store(nil)
	p.shared.hot.count.Add(-1)
}

// coolAfter is how old a stripe's second may be, in seconds, for the stripe to count as busy.
const coolAfter = 10

// live sums the entry's hits in the window (from, to] that are not yet folded. The caller holds the partition's lock.
func (p *partition) live(en *entry, from, to int64) uint64 {
	word := en.Value.cell.Word.Load()
	if hot := p.shared.hot.find(en, word); hot != nil {
		return hot.Live(from, to)
	}
	return en.Value.cell.Live(from, to)
}

// newestOf is the second of an entry's newest hit. The caller holds the partition's lock.
func (p *partition) newestOf(en *entry) int64 {
	word := en.Value.cell.Word.Load()
	second, seen := en.Value.newest(word)
	if hot := p.shared.hot.find(en, word); hot != nil {
		second, seen = hot.Newest(&en.Value.window)
	}
	if !seen {
		second = math.MinInt64
	}
	if set := p.sets[en.Key()]; set != nil {
		second = max(second, set.Newest())
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
			p.cool(hot.owner, Idle)
			p.mu.Unlock()
		}
	}
}

// expectBlock is how many keys Expect looks for together: more would push each other out of the nearest cache.
const expectBlock = 64

// expectFrom is how many keys a keyspace has at least for Expect to pay: fewer are in the cache anyway.
const expectFrom = 1 << 14

// Expected is a key whose hits come next, and where it is, or would be. It keeps the key's bytes.
type Expected struct {
	key       string
	partition int
	hash      uint64 // in its table
}

// Find is one key, and asks for its bucket: what is done until Hit looks into it costs less.
func (k *Keyspace) Find(key string) Expected {
	found := Expected{key, k.PartitionOf(key), k.hash(key)}
	k.tables[found.partition].Load().Expect(found.hash)
	return found
}

// Key is the key.
func (e *Expected) Key() string { return e.key }

// Expect appends keys whose hits come next to expected, and loads what Hit of them will read into the processor's cache.
// This makes each hit cheaper if there are many keys and the caller has some dozens of hits. It counts nothing, and keeps
// the keys' bytes in expected only. A key without a
// recent hit takes two cache misses one after the other, or three if it is long. It takes one more if the key itself
// has not been read yet. So Expect asks for all keys of a block, then for their buckets, then for their entries. The
// processor then waits for many of them at once.
func (k *Keyspace) Expect(expected []Expected, keys []string) []Expected {
	if k.keys.Load() < expectFrom {
		for _, key := range keys {
			expected = append(expected, k.Find(key))
		}
		return expected
	}
	var tables [expectBlock]*KeyTable[counted]
	for block := range slices.Chunk(keys, expectBlock) {
		for _, key := range block {
			PrefetchRead(unsafe.Pointer(unsafe.StringData(key)))
		}
		first := len(expected)
		for i, key := range block {
			one := k.Find(key)
			tables[i] = k.tables[one.partition].Load()
			expected = append(expected, one)
		}
		found := expected[first:]
		for i := range found {
			tables[i].ExpectEntry(found[i].hash)
		}
		for i, key := range block {
			if LongKey(key) {
				tables[i].Find(found[i].hash, key)
			}
		}
	}
	return expected
}
