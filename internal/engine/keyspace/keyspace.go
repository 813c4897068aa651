// Package keyspace has the keys of an engine and their hits, within a memory budget. Partitions are fixed shares of the
// keys, by hash.
//
// Calls go one way: Keyspace, partition, and from there to shared, the table, live cells and windows. A Keyspace finds
// a key's partition and has its lock. A partition does what concerns only itself. Only a Keyspace looks at several
// partitions, to free memory.
//
// A hit in the second of its key's live cell takes no lock. All others, and all that leave a cell, go through
// partition.settle once: into the key's window, and with Config.Gather into the next cut.
package keyspace

import (
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cespare/xxhash/v2"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/window"
)

// Keyspace is the keys of an engine and what they were hit, in partitions: fixed shares of the
// keys, by hash. Calls go one way: keyspace, partition, shared.
type Keyspace struct {
	shared
	partitions []partition
	tables     []atomic.Pointer[KeyTable[counted]] // of the partitions, in one slice: to find a key does not wait for the cache line of a lock
	evictNext  atomic.Uint32                       // where makeSpace looks next

	parted   atomic.Bool   // some partition was released or cleared: allKeys is the sum of those held
	releases atomic.Uint64 // of partitions, and changes of several at once, so far

	atOnce sync.RWMutex // held while several partitions change at once, and to read several of them
}

// Config sets up a Keyspace.
type Config struct {
	Partitions int           // a power of two
	Memory     int64         // the budget for keys and windows, bytes
	Gather     bool          // new hits are kept for Cut
	MaxWaiting int64         // entries that may wait for Cut
	Clock      *Clock        // of the engine
	Empty      window.Window // of the engine's retention
}

// New returns an empty one.
func New(cfg Config) *Keyspace {
	k := &Keyspace{
		shared: shared{gather: cfg.Gather, memory: cfg.Memory, maxWaiting: cfg.MaxWaiting,
			clock: cfg.Clock, empty: cfg.Empty, seed: maphash.MakeSeed()},
		partitions: make([]partition, cfg.Partitions),
		tables:     make([]atomic.Pointer[KeyTable[counted]], cfg.Partitions),
	}
	for i := range k.partitions {
		p := &k.partitions[i]
		t := NewKeyTable[counted]()
		p.shared, p.table, p.total = &k.shared, &k.tables[i], cfg.Empty
		p.table.Store(t)
		k.bytes.Add(t.Bytes())
	}
	return k
}

// PartitionOf is the number of a key's partition, of so many. It depends on these two alone: nodes must agree on it.
func PartitionOf(key string, partitions int) int {
	return int(xxhash.Sum64String(key) & uint64(partitions-1))
}

// PartitionOf is the number of the key's partition.
func (k *Keyspace) PartitionOf(key string) int { return PartitionOf(key, len(k.partitions)) }

func (k *Keyspace) partition(key string) *partition { return &k.partitions[k.PartitionOf(key)] }

// Error is the one error type of an engine. Code says what went wrong. Field names the argument or setting, and may be
// empty. Message says what to do about it.
type Error struct {
	Code    api.Code
	Field   string
	Message string
}

func (e *Error) Error() string { return e.Message }

// MaxKeyBytes is the longest key, in bytes.
const MaxKeyBytes = 512

// CheckKey returns an *Error of api.CodeInvalidKey unless a key has 1 to MaxKeyBytes bytes.
func CheckKey(key string) error {
	if len(key) < 1 || len(key) > MaxKeyBytes {
		return &Error{Code: api.CodeInvalidKey, Field: "key", Message: fmt.Sprintf("key of %d bytes: must have 1 to %d", len(key), MaxKeyBytes)}
	}
	return nil
}

// Stats are a keyspace's figures. Hits are weighted by their n.
type Stats struct {
	Keys, HotKeys            int
	EvictedKeys, EvictedHits uint64
	ExpiredKeys              uint64
	Bytes                    int64 // of tables, keys and windows
	Waiting                  int64 // deltas and filled live cells that wait for a cut
	DistinctKeys             int   // with distinct ids
	DistinctBytes            int64 // of Bytes: their sets
	WaitingBytes             int64 // what they take in batches, at most, and keys of the last cut if they are hit again
}

// Stats returns the figures; each is exact, but they are not taken at one instant.
func (k *Keyspace) Stats() Stats {
	return Stats{
		Keys:         int(k.keys.Load()),
		HotKeys:      int(k.hot.count.Load()),
		EvictedKeys:  k.departed.evictedKeys.Load(),
		EvictedHits:  k.departed.evictedHits.Load(),
		ExpiredKeys:  k.departed.expiredKeys.Load(),
		Bytes:        k.bytes.Load(),
		DistinctKeys: int(k.idFigures.keys.Load()), DistinctBytes: k.idFigures.bytes.Load(),
		Waiting:      k.waiting.entries.Load(),
		WaitingBytes: k.waiting.bytes.Load(),
	}
}

// What tests of an engine look at.

// Heat gives a key stripes, as cores that hit it at once do. It fails if the key is not there.
func (k *Keyspace) Heat(key string) (there bool) {
	p := k.partition(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	en := p.table.Load().Find(k.hash(key), key)
	if en != nil {
		p.heat(en)
	}
	return en != nil
}

// Settled calls f with the window of each key of a partition, and with the window of all keys under allKeys. The
// windows lack the hits in live cells. It returns how many windows are ahead of the clock.
func (k *Keyspace) Settled(number int, f func(key string, w *window.Window)) (ahead int) {
	p := &k.partitions[number]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.table.Load().Each(func(en *entry) { f(en.Key(), &en.Value.window) })
	f(allKeys, &p.total)
	return p.quarantine.Len()
}

const (
	allKeys        = "*"      // engine.AllKeys
	separatePrefix = "limit:" // engine.SeparatePrefix
)

// Separate reports whether a key is counted separately: allKeys has none of its hits.
func Separate(key string) bool { return strings.HasPrefix(key, separatePrefix) }

// lists reports whether a list of keys that begin with prefix has a key that does.
func lists(prefix, key string) bool { return !Separate(key) || Separate(prefix) }

// entry is one key and what it was hit: a cache line, where the key is not long.
type entry = Entry[counted]

// counted is what a key was hit: its live cell and its window.
type counted struct {
	cell   Cell
	window window.Window // guarded by the partition's lock
}

// keyBytes is the memory of an entry without its window.
func keyBytes(en *entry) int64 {
	return EntryBytes[counted](len(en.Key())) - int64(unsafe.Sizeof(window.Window{}))
}

// newest is the latest second of the window and the live cell, whose word is given.
func (c *counted) newest(word uint64) (second int64, seen bool) {
	second, seen = c.window.Newest()
	if word < Special && CellHits(word) > 0 {
		second, seen = max(second, CellSecond(word)), true
	}
	return second, seen
}

// Delete forgets a key, and reports whether it was there; it fails if its partition is not held.
func (k *Keyspace) Delete(key string) (had, held bool) {
	p := k.partition(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away.Load() {
		return false, false
	}
	if had = p.delete(strings.Clone(key)); k.sampled.Load() {
		p.delete(SampledPrefix + key)
	}
	return had, true
}

// Removals returns how many removals of a key the next cut has. A recorder notes with hits what it was before them.
func (k *Keyspace) Removals(key string) uint64 {
	p := k.partition(key)
	if p.removals.Load() == 0 {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.removed[key]
}

// delete forgets a key, and reports whether it was there. The caller holds mu.
func (p *partition) delete(key string) (had bool) {
	en := p.table.Load().Find(p.shared.hash(key), key)
	if had := p.dropQuarantined(key); en == nil && !had {
		return false
	}
	if en != nil {
		p.remove(en)
	}
	p.removePast(key)
	delete(p.fresh, key)
	p.gather(replication.Delta{Key: key})
	if p.shared.gather {
		if p.gone == nil {
			p.gone = map[string]int{}
		}
		p.gone[key]++
	}
	return true
}
