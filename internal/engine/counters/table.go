// Package counters keeps the values of Redis commands by key: whole numbers, and times of requests, each until it
// expires or for good. Clients of Redis build limits per fixed window from them (INCR, then EXPIRE), and totals.
//
// Invariants. Expired counters are never seen. Memory has a bound. When it is used up, new keys are refused. No counter
// is removed before it expires, because that would grant a fresh allowance. One operation is one atomic step;
// View.Hold makes several operations one step. Time is an argument, in milliseconds of the engine's clock of limits.
//
// An engine with a journal writes each changed counter with its next flush (journal.go). Among nodes one of them changes
// counters, and all nodes follow.
package counters

import (
	"errors"
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
)

// ErrFull is the error of a new key when the memory is used up.
var ErrFull = errors.New("the memory for counters is used up by counters that have not expired")

// ErrOverflow is the error of a change that does not fit into 64 bits. Nothing is changed.
var ErrOverflow = errors.New("increment or decrement would overflow")

// ErrType is the error of adding to a key that holds a log.
var ErrType = errors.New("the key holds a log of times")

const (
	shardCount = 64

	// entryBytes is the memory of a counter without its key: the counter, and its place in a map that is half full.
	entryBytes = 128

	// sweptEach is how many counters each new key checks, to remove expired ones. It is above 1, so that more counters
	// are checked than added.
	sweptEach = 4

	// fullSweepEvery is the shortest time between two sweeps of all shards when the memory is used up, in milliseconds.
	fullSweepEvery = 1000
)

// Table has the counters of an engine. Create it with New; each client uses it through a View.
type Table struct {
	cfg    Config
	token  atomic.Uint64 // of the claim under which this node changes counters; 0: it is alone
	seed   maphash.Seed  // of parts for Scan
	parts  []part        // by partition
	shards [shardCount]shard

	used     atomic.Int64 // bytes
	keys     atomic.Int64
	expiring atomic.Int64 // keys with an expiry time
	refused  atomic.Uint64
	swept    atomic.Int64 // time of the last sweep of all shards, in milliseconds
}

// Config is what a Table needs of its engine.
type Config struct {
	Bound       int64                    // of memory, in bytes
	Partitions  int                      // a power of two
	PartitionOf func(key string) int     // below Partitions
	Clock       interface{ Now() int64 } // of limits, in ns
	Ahead       func() int64             // by how much the time of day is ahead of it, in ns
	Journaled   bool                     // Cut takes the changes
	Refuses     func() error             // why the journal takes no changes; nil error: it takes them
}

type shard struct {
	mu     sync.Mutex
	keys   map[string]*entry
	before map[string]image  // by key: what the journal has, of changes that did not come back from there
	gone   map[string]*entry // by key: removed ones that are in part.changed. Their memory counts until the next cut

	_ [32]byte // shards are used by several cores: each has its own cache line
}

// part is what a shard has of a partition.
type part struct {
	changed []*entry // since the last cut, in their order
	number  uint64   // of the last change that was cut
	token   uint64   // the highest that was applied
	cut     uint64   // the token of the last change that was cut
}

// entry is a counter of the table.
type entry struct {
	Counter
	key       string
	partition int32
	changed   bool // it is in part.changed
	removed   bool // it is not in shard.keys
}

// Counter is the value of a key, and when it expires, in milliseconds (0: never). A key with a Log has no value.
type Counter struct {
	Value, Expires int64
	Log            *Log
}

// New returns an empty Table.
func New(cfg Config) *Table {
	t := &Table{cfg: cfg, seed: maphash.MakeSeed(), parts: make([]part, cfg.Partitions)}
	for i := range t.shards {
		t.shards[i].keys, t.shards[i].before, t.shards[i].gone = map[string]*entry{}, map[string]image{}, map[string]*entry{}
	}
	return t
}

// Now is the time that operations take, in milliseconds.
func (t *Table) Now() int64 { return t.cfg.Clock.Now() / nsOfMs }

// Refuses returns why no counter may be changed: a journal that takes nothing would lose the change. nil: all may.
func (t *Table) Refuses() error { return t.cfg.Refuses() }

// Stats are the figures of a Table.
type Stats struct {
	Keys         int64 // includes expired keys that are not removed yet
	Expiring     int64 // keys with an expiry time
	Bytes, Bound int64
	Refused      uint64 // new keys refused for lack of memory, since the start
}

// Stats returns the current figures.
func (t *Table) Stats() Stats {
	return Stats{t.keys.Load(), t.expiring.Load(), t.used.Load(), t.cfg.Bound, t.refused.Load()}
}

// shardOf is the number of the key's shard, which has all keys of its partition.
func (t *Table) shardOf(key string) int { return t.cfg.PartitionOf(key) % shardCount }

// find returns the counter of a key, or nil. The caller holds the shard, here and in the functions below.
func (t *Table) find(s *shard, now int64, key []byte) *entry {
	c := s.keys[string(key)]
	if c != nil && c.expired(now) {
		t.remove(s, string(key))
		return nil
	}
	return c
}

func (c *Counter) expired(now int64) bool { return c.Expires != 0 && c.Expires <= now }

func (t *Table) remove(s *shard, key string) {
	c := s.keys[key]
	t.put(c, Counter{}) // releases the memory of a log
	delete(s.keys, key)
	c.removed = true
	t.keys.Add(-1)
	if c.changed {
		s.gone[key] = c
		return
	}
	t.used.Add(-c.bytes())
}

// bytes returns the memory of the counter without a log.
func (c *entry) bytes() int64 { return entryBytes + int64(len(c.key)) }

// take removes a counter by a command, in place of expiring.
func (t *Table) take(s *shard, key string) {
	t.change(s, s.keys[key], true)
	t.remove(s, key)
}

// put sets a counter of the table, and accounts for a changed expiry time and for the memory of a new log.
func (t *Table) put(c *entry, to Counter) {
	if was, is := c.Expires != 0, to.Expires != 0; was != is {
		by := int64(1)
		if was {
			by = -1
		}
		t.expiring.Add(by)
	}
	if c.Log != to.Log {
		t.used.Add(to.Log.bytes() - c.Log.bytes())
	}
	c.Counter = to
}

// add creates the counter of a key that has none.
func (t *Table) add(s *shard, now int64, key []byte) (*entry, error) {
	if err := t.reserve(s, now, entryBytes+int64(len(key))); err != nil {
		return nil, err
	}
	c := t.insert(s, string(key))
	t.change(s, c, false)
	return c, nil
}

// insert is add after the memory was taken, of what is no change.
func (t *Table) insert(s *shard, key string) *entry {
	t.keys.Add(1)
	c := s.gone[key]
	if c == nil {
		c = &entry{key: key, partition: int32(t.cfg.PartitionOf(key))}
	} else {
		t.forget(s, c) // its memory was taken anew
		c.removed = false
	}
	s.keys[key] = c
	return c
}

// forget releases the memory of a counter in shard.gone.
func (t *Table) forget(s *shard, c *entry) {
	delete(s.gone, c.key)
	t.used.Add(-c.bytes())
}

// reserve takes bytes of the table's memory.
func (t *Table) reserve(s *shard, now, bytes int64) error {
	t.sweep(s, now, sweptEach)
	if t.used.Add(bytes) > t.cfg.Bound && !t.madeSpace(s, now) {
		t.used.Add(-bytes)
		t.refused.Add(1)
		return ErrFull
	}
	return nil
}

// madeSpace sweeps all shards, at most once per fullSweepEvery, and reports whether the memory is within its bound
// again.
func (t *Table) madeSpace(mine *shard, now int64) bool {
	last := t.swept.Load()
	if now-last < fullSweepEvery && now >= last || !t.swept.CompareAndSwap(last, now) {
		return false
	}
	for i := range t.shards {
		s := &t.shards[i]
		if s != mine && !s.mu.TryLock() {
			continue // its holder may wait for mine
		}
		t.sweep(s, now, len(s.keys))
		if s != mine {
			s.mu.Unlock()
		}
	}
	return t.used.Load() <= t.cfg.Bound
}

// sweep checks up to most counters of a shard, in the random order of the map, and removes the expired ones.
func (t *Table) sweep(s *shard, now int64, most int) {
	for key, c := range s.keys {
		if most--; most < 0 {
			return
		}
		if c.expired(now) {
			t.remove(s, key)
		}
	}
}

// Sum returns a + b, and whether the sum fits into 64 bits.
func Sum(a, b int64) (sum int64, ok bool) {
	sum = a + b
	return sum, (sum > a) == (b > 0)
}

// Condition is a set of conditions, which must all hold.
type Condition uint8

// The conditions of Set and Expire.
const (
	Absent  Condition = 1 << iota // there is no counter, or it has no expiry time
	Present                       // there is one
	Later                         // the new time is after the old; never is the latest
	Earlier

	Always Condition = 0
)

// Has reports whether a condition is among them.
func (only Condition) Has(one Condition) bool { return only&one != 0 }

// holds checks the condition for the old and the new expiry time; 0 is never.
func (only Condition) holds(have, at int64) bool {
	never := func(t int64) int64 {
		if t == 0 {
			return math.MaxInt64
		}
		return t
	}
	return !(only.Has(Absent) && have != 0 || only.Has(Present) && have == 0 ||
		only.Has(Later) && never(at) <= never(have) || only.Has(Earlier) && never(at) >= never(have))
}
