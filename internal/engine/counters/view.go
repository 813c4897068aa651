package counters

import (
	"hash/maphash"
	"math/bits"
	"unsafe"
)

// View is the access of one client to a Table. It is for one goroutine.
type View struct {
	// Wrote is set once the view has changed a counter. The caller may clear it.
	Wrote bool

	table *Table
	held  Shards
}

// View returns a new view of the table.
func (t *Table) View() View { return View{table: t} }

// Shards is a set of shards, for Hold.
type Shards uint64

// AllShards has every shard.
const AllShards = ^Shards(0)

// ShardOf returns the shard of a key.
func (v *View) ShardOf(key []byte) Shards { return 1 << v.table.shardOf(text(key)) }

// text is b as a string without a copy, for callees that keep no part of it.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Hold locks shards until Release, so that all operations on their keys are one atomic step. The holder must not wait
// for anybody.
func (v *View) Hold(wanted Shards) {
	for rest := uint64(wanted); rest != 0; rest &= rest - 1 { // always in this order, so that there is no deadlock
		v.table.shards[bits.TrailingZeros64(rest)].mu.Lock()
	}
	v.held = wanted
}

// Release ends Hold.
func (v *View) Release() {
	for rest := uint64(v.held); rest != 0; rest &= rest - 1 {
		v.table.shards[bits.TrailingZeros64(rest)].mu.Unlock()
	}
	v.held = 0
}

// HoldKey is Hold for one key, until release is called. A view that already holds shards must hold the key's shard.
func (v *View) HoldKey(key []byte) (release func()) {
	if v.held != 0 {
		return func() {}
	}
	v.Hold(v.ShardOf(key))
	return v.Release
}

// lock locks the shard of a key, unless it is held.
func (v *View) lock(key []byte) (s *shard, locked bool) {
	i := v.table.shardOf(text(key))
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

// Get returns the counter of a key.
func (v *View) Get(now int64, key []byte) (c Counter, ok bool) {
	s, locked := v.lock(key)
	defer s.unlock(locked)
	if have := v.table.find(s, now, key); have != nil {
		return have.Counter, true
	}
	return c, false
}

// Add adds to a counter. A new counter starts at 0 and never expires. The error is ErrFull, ErrOverflow or ErrType.
func (v *View) Add(now int64, key []byte, by int64) (value int64, err error) {
	s, locked := v.lock(key)
	defer s.unlock(locked)
	c := v.table.find(s, now, key)
	if c == nil {
		if c, err = v.table.add(s, now, key); err != nil {
			return 0, err
		}
	}
	if c.Log != nil {
		return 0, ErrType
	}
	sum, ok := Sum(c.Value, by)
	if !ok {
		return 0, ErrOverflow
	}
	v.changes(s, c)
	c.Value = sum
	return sum, nil
}

// changes notes that the view changes a counter of the table.
func (v *View) changes(s *shard, c *entry) {
	v.Wrote = true
	v.table.change(s, c, true)
}

// Remove removes a counter, if there is one.
func (v *View) Remove(now int64, key []byte) (existed bool) {
	s, locked := v.lock(key)
	defer s.unlock(locked)
	if v.table.find(s, now, key) == nil {
		return false
	}
	v.Wrote = true
	v.table.take(s, string(key))
	return true
}

// Setting says how Set changes a counter.
type Setting struct {
	Counter
	Keep   bool // keeps the expiry time, in place of Expires
	OnlyIf Condition
}

// Set sets a counter. It returns the counter before, whether there was one, and whether the conditions held. The error
// is ErrFull.
func (v *View) Set(now int64, key []byte, to Setting) (before Counter, existed, done bool, err error) {
	s, locked := v.lock(key)
	defer s.unlock(locked)
	c := v.table.find(s, now, key)
	if existed = c != nil; existed {
		before = c.Counter
	}
	switch {
	case to.OnlyIf.Has(Absent) && existed, to.OnlyIf.Has(Present) && !existed:
		return before, existed, false, nil
	case to.Keep:
		to.Expires = before.Expires
	case to.Expires != 0 && to.Expires <= now:
		if existed {
			v.Wrote = true
			v.table.take(s, string(key))
		}
		return before, existed, true, nil
	}
	if !existed {
		if c, err = v.table.add(s, now, key); err != nil {
			return before, false, false, err
		}
	}
	v.changes(s, c)
	v.table.put(c, to.Counter)
	return before, existed, true, nil
}

// Expire sets when a counter expires (0: never). A time that is not after now removes it at once. It reports whether
// there is such a counter and the condition holds.
func (v *View) Expire(now int64, key []byte, at int64, only Condition) (done bool) {
	s, locked := v.lock(key)
	defer s.unlock(locked)
	c := v.table.find(s, now, key)
	if c == nil || !only.holds(c.Expires, at) {
		return false
	}
	v.changes(s, c)
	to := c.Counter
	to.Expires = at
	if v.table.put(c, to); c.expired(now) {
		v.table.remove(s, string(key))
	}
	return true
}

// scanParts is the number of parts of a shard for Scan, so that a reply has about 1/1000 of all keys at most.
const scanParts = 16

// ScanParts is the number of parts for Scan.
const ScanParts = shardCount * scanParts

// Scan calls f for the keys of one of ScanParts parts, and returns their number. All parts together have all keys. A
// key that exists all the time is seen exactly once.
func (v *View) Scan(now int64, part int, f func(key string, c *Counter)) (n int) {
	s := &v.table.shards[part/scanParts]
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, c := range s.keys {
		if maphash.String(v.table.seed, key)%scanParts == uint64(part%scanParts) && !c.expired(now) {
			n++
			f(key, &c.Counter)
		}
	}
	return n
}

// RemoveAll removes the counters whose keys fit, and returns their number. It locks one shard at a time, so it is no
// atomic step, unless the caller holds all shards.
func (v *View) RemoveAll(now int64, fit func(key string) bool) (n int) {
	for i := range v.table.shards {
		s := &v.table.shards[i]
		locked := v.held&(1<<i) == 0
		if locked {
			s.mu.Lock()
		}
		for key, c := range s.keys {
			if fit(key) {
				if !c.expired(now) {
					n++
				}
				v.Wrote = true
				v.table.take(s, key)
			}
		}
		s.unlock(locked)
	}
	return n
}
