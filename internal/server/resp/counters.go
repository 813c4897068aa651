package resp

import (
	"errors"
	"hash/maphash"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
)

// This part keeps whole numbers by key, each until it expires: what clients of Redis
// build limits per fixed window from (INCR, then EXPIRE). In place of a number, a key may hold the times of
// requests (counters_log.go). It keeps them in memory and
// nowhere else. Pure: time is an argument, in milliseconds of a clock that the caller chooses.
//
// Invariants. Expired counters are never seen. Memory has a bound: when it is used up, new keys are
// refused, and none is removed before it expires, so that nobody gains a fresh allowance. One
// operation is one atomic step; View.Hold makes several so.
//
// Neighbours: package resp has one Table for all its clients.

// ErrCountersFull is the error of a new key when the memory is used up.
var ErrCountersFull = errors.New("the memory for counters is used up by counters that have not expired")

// ErrCounterOverflow is the error of a change that would leave 64 bits; nothing was changed.
var ErrCounterOverflow = errors.New("increment or decrement would overflow")

// ErrCounterType is the error of a change of a number where a key holds a log.
var ErrCounterType = errors.New("the key holds a log of times")

const (
	shardCount = 64

	// counterBytes is the memory of a counter beside the bytes of its key: itself, and its
	// place in a map that is half full.
	counterBytes = 104

	// sweptEach is how many counters the arrival of a new key looks at, to remove those that
	// expired: more than one of those it adds.
	sweptEach = 4

	// fullSweepEvery is the least time between two searches of everything, when the memory is
	// used up, in milliseconds.
	fullSweepEvery = 1000
)

// CounterTable is the counters of many clients. Create it with New; use it by a View each.
type CounterTable struct {
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

// NewCounterTable returns an empty Table that uses so many bytes at most.
func NewCounterTable(bytes int64) *CounterTable {
	t := &CounterTable{seed: maphash.MakeSeed(), bound: bytes}
	for i := range t.shards {
		t.shards[i].keys = map[string]*Counter{}
	}
	return t
}

// CounterStats are the figures of a Table.
type CounterStats struct {
	Keys         int64 // with those that expired and were not removed yet
	Expiring     int64 // those of Keys that have a time at which they expire
	Bytes, Bound int64
	Refused      uint64 // new keys for which there was no room, since the start
}

// Stats are its figures now.
func (t *CounterTable) Stats() CounterStats {
	return CounterStats{t.keys.Load(), t.expiring.Load(), t.used.Load(), t.bound, t.refused.Load()}
}

func (t *CounterTable) shardOf(key []byte) int {
	return int(maphash.Bytes(t.seed, key) % shardCount)
}

// find returns the counter of a key, or nil. The caller holds the shard, as in all below.
func (t *CounterTable) find(s *shard, now int64, key []byte) *Counter {
	c := s.keys[string(key)]
	if c != nil && c.expired(now) {
		t.remove(s, string(key))
		return nil
	}
	return c
}

func (c *Counter) expired(now int64) bool { return c.Expires != 0 && c.Expires <= now }

func (t *CounterTable) remove(s *shard, key string) {
	t.put(s.keys[key], Counter{}) // which gives the memory of a log back
	delete(s.keys, key)
	t.keys.Add(-1)
	t.used.Add(-counterBytes - int64(len(key)))
}

// put gives a counter of the table its value, and the time at which it expires. The memory of its log, if it has another one
// than before, counts from now on.
func (t *CounterTable) put(c *Counter, to Counter) {
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
	*c = to
}

// add makes the counter of a key that has none.
func (t *CounterTable) add(s *shard, now int64, key []byte) (*Counter, error) {
	if err := t.reserve(s, now, counterBytes+int64(len(key))); err != nil {
		return nil, err
	}
	t.keys.Add(1)
	c := new(Counter)
	s.keys[string(key)] = c
	return c, nil
}

// reserve takes so many bytes of the memory.
func (t *CounterTable) reserve(s *shard, now, bytes int64) error {
	t.sweep(s, now, sweptEach)
	if t.used.Add(bytes) > t.bound && !t.madeRoom(s, now) {
		t.used.Add(-bytes)
		t.refused.Add(1)
		return ErrCountersFull
	}
	return nil
}

// madeRoom searches everything, once in a while.
func (t *CounterTable) madeRoom(mine *shard, now int64) bool {
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
func (t *CounterTable) sweep(s *shard, now int64, most int) {
	for key, c := range s.keys {
		if most--; most < 0 {
			return
		}
		if c.expired(now) {
			t.remove(s, key)
		}
	}
}

// Counter is the value of a key, and when it expires, in milliseconds; 0: never. A key with a Log has no value.
type Counter struct {
	Value, Expires int64
	Log            *TimeLog
}

// Get returns the counter of a key.
func (v *CounterView) Get(now int64, key []byte) (c Counter, ok bool) {
	s, locked := v.lock(key)
	defer s.unlock(locked)
	if have := v.table.find(s, now, key); have != nil {
		return *have, true
	}
	return c, false
}

// Add adds to a counter, which is 0 and never expires if it is new. The error is ErrCountersFull, ErrCounterOverflow
// or ErrCounterType.
func (v *CounterView) Add(now int64, key []byte, by int64) (value int64, err error) {
	s, locked := v.lock(key)
	defer s.unlock(locked)
	c := v.table.find(s, now, key)
	if c == nil {
		if c, err = v.table.add(s, now, key); err != nil {
			return 0, err
		}
	}
	if c.Log != nil {
		return 0, ErrCounterType
	}
	sum, ok := add(c.Value, by)
	if !ok {
		return 0, ErrCounterOverflow
	}
	c.Value = sum
	return sum, nil
}

// add is a + b, if that has 64 bits.
func add(a, b int64) (sum int64, ok bool) {
	sum = a + b
	return sum, (sum > a) == (b > 0)
}

// Remove removes a counter, if there is one.
func (v *CounterView) Remove(now int64, key []byte) (existed bool) {
	s, locked := v.lock(key)
	defer s.unlock(locked)
	if v.table.find(s, now, key) == nil {
		return false
	}
	v.table.remove(s, string(key))
	return true
}

// CounterSetting says how Set changes a counter.
type CounterSetting struct {
	Counter
	Keep   bool // the time at which it expires, in place of Expires
	OnlyIf SetCondition
}

// SetCondition is a set of conditions, which must all hold.
type SetCondition uint8

// The conditions of Set and Expire.
const (
	Absent  SetCondition = 1 << iota // there is no counter, or no time at which it expires
	Present                          // there is one
	Later                            // the new time is after the old; never is the latest
	Earlier

	Always SetCondition = 0
)

func (only SetCondition) has(one SetCondition) bool { return only&one != 0 }

// Set sets a counter. The error is ErrCountersFull. before is what it was, and existed whether there was one.
func (v *CounterView) Set(now int64, key []byte, to CounterSetting) (before Counter, existed, done bool, err error) {
	s, locked := v.lock(key)
	defer s.unlock(locked)
	c := v.table.find(s, now, key)
	if existed = c != nil; existed {
		before = *c
	}
	switch {
	case to.OnlyIf.has(Absent) && existed, to.OnlyIf.has(Present) && !existed:
		return before, existed, false, nil
	case to.Keep:
		to.Expires = before.Expires
	case to.Expires != 0 && to.Expires <= now:
		if existed {
			v.table.remove(s, string(key))
		}
		return before, existed, true, nil
	}
	if !existed {
		if c, err = v.table.add(s, now, key); err != nil {
			return before, false, false, err
		}
	}
	v.table.put(c, to.Counter)
	return before, existed, true, nil
}

// Expire says when a counter expires, at once if that is not after now; 0: never. It returns
// whether it did: there is such a counter, and the condition holds.
func (v *CounterView) Expire(now int64, key []byte, at int64, only SetCondition) (done bool) {
	s, locked := v.lock(key)
	defer s.unlock(locked)
	c := v.table.find(s, now, key)
	if c == nil || !only.holds(c.Expires, at) {
		return false
	}
	to := *c
	to.Expires = at
	if v.table.put(c, to); c.expired(now) {
		v.table.remove(s, string(key))
	}
	return true
}

// holds compares times at which a counter expires; 0 is never.
func (only SetCondition) holds(have, at int64) bool {
	never := func(t int64) int64 {
		if t == 0 {
			return math.MaxInt64
		}
		return t
	}
	return !(only.has(Absent) && have != 0 || only.has(Present) && have == 0 ||
		only.has(Later) && never(at) <= never(have) || only.has(Earlier) && never(at) >= never(have))
}

// CounterView is how one client uses a Table. It is for one goroutine.
type CounterView struct {
	table *CounterTable
	held  uint64 // shards, by bit
}

// View returns one.
func (t *CounterTable) View() CounterView { return CounterView{table: t} }

// CounterShards are where keys are: a set, for Hold.
type CounterShards uint64

// allShards are where all keys are.
const allShards = ^CounterShards(0)

// ShardOf is where a key is.
func (v *CounterView) ShardOf(key []byte) CounterShards { return 1 << v.table.shardOf(key) }

// Hold makes all that follows one atomic step, for the keys of some shards, until Release. Who
// holds must not wait for anybody.
func (v *CounterView) Hold(of CounterShards) {
	for rest := uint64(of); rest != 0; rest &= rest - 1 { // in order, so that nobody waits in a circle
		v.table.shards[bits.TrailingZeros64(rest)].mu.Lock()
	}
	v.held = uint64(of)
}

// Release ends Hold.
func (v *CounterView) Release() {
	for rest := v.held; rest != 0; rest &= rest - 1 {
		v.table.shards[bits.TrailingZeros64(rest)].mu.Unlock()
	}
	v.held = 0
}

// holdKey is Hold for one key, until the function that it returns. Who holds already holds all the keys that follow.
func (v *CounterView) holdKey(key []byte) (release func()) {
	if v.held != 0 {
		return func() {}
	}
	v.Hold(v.ShardOf(key))
	return v.Release
}

// lock locks the shard of a key, unless it is held.
func (v *CounterView) lock(key []byte) (s *shard, locked bool) {
	i := v.table.shardOf(key)
	s = &v.table.shards[i]
	if v.held&(1<<i) != 0 {
		return s, false
	}
	s.mu.Lock()
	return s, true
}

func (s *shard) unlock(locked bool) {
	if locked {
		s.mu.Unlock()
	}
}
