package counters

import (
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// ErrFull is the error of a new key when the memory is used up.
var ErrFull = errors.New("the memory for counters is used up by counters that have not expired")

// ErrOverflow is the error of a change that would leave 64 bits; nothing was changed.
var ErrOverflow = errors.New("increment or decrement would overflow")

const (
	shardCount = 64

	// counterBytes is the memory of a counter beside the bytes of its key: itself, and its
	// place in a map that is half full.
	counterBytes = 96

	// sweptEach is how many counters the arrival of a new key looks at, to remove those that
	// expired: more than one of those it adds.
	sweptEach = 4

	// fullSweepEvery is the least time between two searches of everything, when the memory is
	// used up, in milliseconds.
	fullSweepEvery = 1000
)

// Table is the counters of many clients. Create it with New; use it by a View each.
type Table struct {
	seed   maphash.Seed
	bound  int64
	shards [shardCount]shard

	used     atomic.Int64 // bytes
	keys     atomic.Int64
	expiring atomic.Int64 // keys that have a time at which they expire
	refused  atomic.Uint64
	swept    atomic.Int64 // when everything was searched, in milliseconds
}

type shard struct {
	mu   sync.Mutex
	keys map[string]*Counter

	_ [48]byte // shards are used by several cores: each has its own cache line
}

// New returns an empty Table that uses so many bytes at most.
func New(bytes int64) *Table {
	t := &Table{seed: maphash.MakeSeed(), bound: bytes}
	for i := range t.shards {
		t.shards[i].keys = map[string]*Counter{}
	}
	return t
}

// Stats are the figures of a Table.
type Stats struct {
	Keys         int64 // with those that expired and were not removed yet
	Expiring     int64 // those of Keys that have a time at which they expire
	Bytes, Bound int64
	Refused      uint64 // new keys for which there was no room, since the start
}

// Stats are its figures now.
func (t *Table) Stats() Stats {
	return Stats{t.keys.Load(), t.expiring.Load(), t.used.Load(), t.bound, t.refused.Load()}
}

func (t *Table) shardOf(key []byte) int {
	return int(maphash.Bytes(t.seed, key) % shardCount)
}

// find returns the counter of a key, or nil. The caller holds the shard, as in all below.
func (t *Table) find(s *shard, now int64, key []byte) *Counter {
	c := s.keys[string(key)]
	if c != nil && c.expired(now) {
		t.remove(s, string(key))
		return nil
	}
	return c
}

func (c *Counter) expired(now int64) bool { return c.Expires != 0 && c.Expires <= now }

func (t *Table) remove(s *shard, key string) {
	t.put(s.keys[key], Counter{})
	delete(s.keys, key)
	t.keys.Add(-1)
	t.used.Add(-counterBytes - int64(len(key)))
}

// put gives a counter of the table its value, and the time at which it expires.
func (t *Table) put(c *Counter, to Counter) {
	if was, is := c.Expires != 0, to.Expires != 0; was != is {
		by := int64(1)
		if was {
			by = -1
		}
		t.expiring.Add(by)
	}
	*c = to
}

// add makes the counter of a key that has none.
func (t *Table) add(s *shard, now int64, key []byte) (*Counter, error) {
	t.sweep(s, now, sweptEach)
	bytes := counterBytes + int64(len(key))
	if t.used.Add(bytes) > t.bound && !t.madeRoom(s, now) {
		t.used.Add(-bytes)
		t.refused.Add(1)
		return nil, ErrFull
	}
	t.keys.Add(1)
	c := new(Counter)
	s.keys[string(key)] = c
	return c, nil
}

// madeRoom searches everything, once in a while.
func (t *Table) madeRoom(mine *shard, now int64) bool {
	last := t.swept.Load()
	if now-last < fullSweepEvery && now >= last || !t.swept.CompareAndSwap(last, now) {
		return false
	}
	for i := range t.shards {
		s := &t.shards[i]
		if s != mine && !s.mu.TryLock() {
			continue // who holds it may wait for mine
		}
		t.sweep(s, now, len(s.keys))
		if s != mine {
			s.mu.Unlock()
		}
	}
	return t.used.Load() <= t.bound
}

// sweep looks at so many counters of a shard, wherever the map begins, and removes those that
// expired.
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
