package resp

import (
	"errors"
	"hash/maphash"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
)

// This part keeps whole numbers by key, in memory only, each until it expires. Clients of Redis build limits per fixed
// window from them (INCR, then EXPIRE). In place of a number, a key may hold the times of requests (counters_log.go).
// Pure: time is an argument, in milliseconds of a clock that the caller chooses.
//
// Invariants. Expired counters are never seen. Memory has a bound. When it is used up, new keys are refused. No counter
// is removed before it expires, because that would grant a fresh allowance. One operation is one atomic step;
// CounterView.Hold makes several operations one step.
//
// A Server has one CounterTable for all its clients.

// ErrCountersFull is the error of a new key when the memory is used up.
var ErrCountersFull = errors.New("the memory for counters is used up by counters that have not expired")

// ErrCounterOverflow is the error of a change that does not fit into 64 bits. Nothing is changed.
var ErrCounterOverflow = errors.New("increment or decrement would overflow")

// ErrCounterType is the error of adding to a key that holds a log.
var ErrCounterType = errors.New("the key holds a log of times")

const (
	shardCount = 64

	// counterBytes is the memory of a counter without its key: the counter, and its place in a map that is half full.
	counterBytes = 104

	// sweptEach is how many counters each new key checks, to remove expired ones. It is above 1, so that more counters
	// are checked than added.
	sweptEach = 4

	// fullSweepEvery is the shortest time between two sweeps of all shards when the memory is used up, in milliseconds.
	fullSweepEvery = 1000
)

// CounterTable has the counters of many clients. Create it with NewCounterTable; each client uses it through a
// CounterView.
type CounterTable struct {
	seed   maphash.Seed
	bound  int64
	shards [shardCount]shard

	used     atomic.Int64 // bytes
	keys     atomic.Int64
	expiring atomic.Int64 // keys with an expiry time
	refused  atomic.Uint64
	swept    atomic.Int64 // time of the last sweep of all shards, in milliseconds
}

type shard struct {
	mu   sync.Mutex
	keys map[string]*Counter

	_ [48]byte // shards are used by several cores: each has its own cache line
}

// NewCounterTable returns an empty CounterTable that uses at most the given bytes.
func NewCounterTable(bytes int64) *CounterTable {
	t := &CounterTable{seed: maphash.MakeSeed(), bound: bytes}
	for i := range t.shards {
		t.shards[i].keys = map[string]*Counter{}
	}
	return t
}

// CounterStats are the figures of a CounterTable.
type CounterStats struct {
	Keys         int64 // includes expired keys that are not removed yet
	Expiring     int64 // keys with an expiry time
	Bytes, Bound int64
	Refused      uint64 // new keys refused for lack of memory, since the start
}

// Stats returns the current figures.
func (t *CounterTable) Stats() CounterStats {
	return CounterStats{t.keys.Load(), t.expiring.Load(), t.used.Load(), t.bound, t.refused.Load()}
}

func (t *CounterTable) shardOf(key []byte) int {
	return int(maphash.Bytes(t.seed, key) % shardCount)
}

// find returns the counter of a key, or nil. The caller holds the shard, here and in the functions below.
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
	t.put(s.keys[key], Counter{}) // releases the memory of a log
	delete(s.keys, key)
	t.keys.Add(-1)
	t.used.Add(-counterBytes - int64(len(key)))
}

// put sets a counter of the table, and accounts for a changed expiry time and for the memory of a new log.
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

// add creates the counter of a key that has none.
func (t *CounterTable) add(s *shard, now int64, key []byte) (*Counter, error) {
	if err := t.reserve(s, now, counterBytes+int64(len(key))); err != nil {
		return nil, err
	}
	t.keys.Add(1)
	c := new(Counter)
	s.keys[string(key)] = c
	return c, nil
}

// reserve takes bytes of the table's memory.
func (t *CounterTable) reserve(s *shard, now, bytes int64) error {
	t.sweep(s, now, sweptEach)
	if t.used.Add(bytes) > t.bound && !t.madeRoom(s, now) {
		t.used.Add(-bytes)
		t.refused.Add(1)
		return ErrCountersFull
	}
	return nil
}

// madeRoom sweeps all shards, at most once per fullSweepEvery, and reports whether the memory is within its bound
// again.
func (t *CounterTable) madeRoom(mine *shard, now int64) bool {
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
	return t.used.Load() <= t.bound
}

// sweep checks up to most counters of a shard, in the random order of the map, and removes the expired ones.
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

// Counter is the value of a key, and when it expires, in milliseconds (0: never). A key with a Log has no value.
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

// Add adds to a counter. A new counter starts at 0 and never expires. The error is ErrCountersFull, ErrCounterOverflow
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

// add returns a + b, and whether the sum fits into 64 bits.
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
	Keep   bool // keeps the expiry time, in place of Expires
	OnlyIf SetCondition
}

// SetCondition is a set of conditions, which must all hold.
type SetCondition uint8

// The conditions of Set and Expire.
const (
	Absent  SetCondition = 1 << iota // there is no counter, or it has no expiry time
	Present                          // there is one
	Later                            // the new time is after the old; never is the latest
	Earlier

	Always SetCondition = 0
)

func (only SetCondition) has(one SetCondition) bool { return only&one != 0 }

// Set sets a counter. It returns the counter before, whether there was one, and whether the conditions held. The error
// is ErrCountersFull.
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

// Expire sets when a counter expires (0: never). A time that is not after now removes it at once. It reports whether
// there is such a counter and the condition holds.
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

// holds checks the condition for the old and the new expiry time; 0 is never.
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

// CounterView is the access of one client to a CounterTable. It is for one goroutine.
type CounterView struct {
	table *CounterTable
	held  uint64 // shards, by bit
}

// View returns a new view of the table.
func (t *CounterTable) View() CounterView { return CounterView{table: t} }

// CounterShards is a set of shards, for Hold.
type CounterShards uint64

// allShards has every shard.
const allShards = ^CounterShards(0)

// ShardOf returns the shard of a key.
func (v *CounterView) ShardOf(key []byte) CounterShards { return 1 << v.table.shardOf(key) }

// Hold locks shards until Release, so that all operations on their keys are one atomic step. The holder must not wait
// for anybody.
func (v *CounterView) Hold(of CounterShards) {
	for rest := uint64(of); rest != 0; rest &= rest - 1 { // always in this order, so that there is no deadlock
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

// holdKey is Hold for one key, until release is called. A view that already holds shards must hold the key's shard.
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
