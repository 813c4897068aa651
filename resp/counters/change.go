package counters

import (
	"math"
	"strings"
)

// Counter is the value of a key, and when it expires, in milliseconds; 0: never.
type Counter struct{ Value, Expires int64 }

// Get returns the counter of a key.
func (v *View) Get(now int64, key []byte) (c Counter, ok bool) {
	s, locked := v.lock(key)
	defer s.unlock(locked)
	if have := v.table.find(s, now, key); have != nil {
		return *have, true
	}
	return c, false
}

// Add adds to a counter, which is 0 and never expires if it is new. The error is ErrFull or
// ErrOverflow.
func (v *View) Add(now int64, key []byte, by int64) (value int64, err error) {
	s, locked := v.lock(key)
	defer s.unlock(locked)
	c := v.table.find(s, now, key)
	if c == nil {
		if c, err = v.table.add(s, now, key); err != nil {
			return 0, err
		}
	}
	sum, ok := add(c.Value, by)
	if !ok {
		return 0, ErrOverflow
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
func (v *View) Remove(now int64, key []byte) (existed bool) {
	s, locked := v.lock(key)
	defer s.unlock(locked)
	if v.table.find(s, now, key) == nil {
		return false
	}
	v.table.remove(s, string(key))
	return true
}

// RemoveAll removes the counters whose keys have a beginning. It looks at all there are, and holds some of them at a time, so it is no
// single step; the caller holds none.
func (v *View) RemoveAll(begin []byte) {
	for i := range v.table.shards {
		s := &v.table.shards[i]
		s.mu.Lock()
		for key := range s.keys {
			if strings.HasPrefix(key, string(begin)) {
				v.table.remove(s, key)
			}
		}
		s.mu.Unlock()
	}
}

// Setting says how Set changes a counter.
type Setting struct {
	Counter
	Keep   bool // the time at which it expires, in place of Expires
	OnlyIf If
}

// If is a condition.
type If uint8

// The conditions of Set and Expire.
const (
	Always  If = iota
	Absent     // there is no counter, or no time at which it expires
	Present    // there is one
	Later      // the new time is after the old; never is the latest
	Earlier
)

// Set sets a counter. The error is ErrFull. before is what it was, and existed whether there was one.
func (v *View) Set(now int64, key []byte, to Setting) (before Counter, existed, done bool, err error) {
	s, locked := v.lock(key)
	defer s.unlock(locked)
	c := v.table.find(s, now, key)
	if existed = c != nil; existed {
		before = *c
	}
	switch {
	case to.OnlyIf == Absent && existed, to.OnlyIf == Present && !existed:
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
func (v *View) Expire(now int64, key []byte, at int64, only If) (done bool) {
	s, locked := v.lock(key)
	defer s.unlock(locked)
	c := v.table.find(s, now, key)
	if c == nil || !only.holds(c.Expires, at) {
		return false
	}
	if v.table.put(c, Counter{c.Value, at}); c.expired(now) {
		v.table.remove(s, string(key))
	}
	return true
}

// holds compares times at which a counter expires; 0 is never.
func (only If) holds(have, at int64) bool {
	never := func(t int64) int64 {
		if t == 0 {
			return math.MaxInt64
		}
		return t
	}
	switch only {
	case Absent:
		return have == 0
	case Present:
		return have != 0
	case Later:
		return never(at) > never(have)
	case Earlier:
		return never(at) < never(have)
	}
	return true
}
