// Package permits keeps who holds permits of limits of how many at once, by limit and key, under one lock.
//
// Invariant: no more than a limit's most ever hold a permit of a key whose time has not run out, also across a restart: what the
// process before gave is not known, so that for a time to live after the start nothing is given that is new, and holders
// that say so by a heartbeat have theirs back. Memory is bounded. Time is an argument, by a clock that does not run back.
package permits

import (
	"sync"
	"time"

	"github.com/weir-counter/weir/limit/permit"
	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/policy/admit"
)

// Most is how many permits are held at once at most, of all keys and limits.
const Most = 100_000

// Table keeps permits. It is safe for many goroutines.
type Table struct {
	mu   sync.Mutex // guards all below
	keys map[id]*permit.Key
	held int // at least as many as are held
}

type id struct{ limit, key string }

// New returns an empty table, which takes the time 0 for its start.
func New() *Table { return &Table{keys: map[id]*permit.Key{}} }

// Outcome is what became of a request.
type Outcome struct {
	admit.Permitted
	Full   bool // there is no room for any more
	Starts bool // of a denial: the table is too young to know who holds what, for Wait
}

// Take gives a holder a permit of all limits, or of none.
func (t *Table) Take(now time.Duration, holder uint64, of []policy.AtOnce) (o Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.full(now, len(of)) {
		return Outcome{Full: true}
	}
	for i := range of {
		l := &of[i]
		if now < l.TTL {
			return Outcome{Permitted: admit.Permitted{Denied: l, Wait: l.TTL - now}, Starts: true}
		}
		k := t.keys[id{l.Name, l.Key}]
		if k == nil {
			continue
		}
		if held := k.Held(int64(now)); held >= l.Most {
			return Outcome{Permitted: admit.Permitted{Denied: l, Held: held, Wait: time.Duration(k.Next()) - now}}
		}
	}
	for i := range of {
		t.key(&of[i]).Take(int64(now), holder, of[i].Most, int64(of[i].TTL))
	}
	t.held += len(of)
	o.OK = true
	return o
}

// Renew is a heartbeat of a holder. It is not OK for one that has lost its permit, of any of the limits: then it has none.
func (t *Table) Renew(now time.Duration, holder uint64, of []policy.AtOnce) Outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	has := false // of some limit: others may be new
	for i := range of {
		k := t.keys[id{of[i].Name, of[i].Key}]
		has = has || k != nil && k.Renew(int64(now), holder, int64(of[i].TTL))
	}
	for i := range of {
		l := &of[i]
		if k := t.keys[id{l.Name, l.Key}]; k != nil && k.Renew(int64(now), holder, int64(l.TTL)) {
			continue
		}
		if !has && now >= l.TTL || t.full(now, 1) || !t.key(l).Adopt(int64(now), holder, l.Most, int64(l.TTL)) {
			t.release(now, holder, of)
			return Outcome{Permitted: admit.Permitted{Denied: l}}
		}
		t.held++
	}
	return Outcome{Permitted: admit.Permitted{OK: true}}
}

// Release gives a permit back, of all limits; false: it was of none.
func (t *Table) Release(now time.Duration, holder uint64, of []policy.AtOnce) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.release(now, holder, of)
}

func (t *Table) release(now time.Duration, holder uint64, of []policy.AtOnce) (had bool) {
	for i := range of {
		at := id{of[i].Name, of[i].Key}
		if k := t.keys[at]; k != nil {
			had = k.Release(int64(now), holder) || had
			if k.Held(int64(now)) == 0 {
				delete(t.keys, at)
			}
		}
	}
	return had
}

// key finds or makes a key.
func (t *Table) key(l *policy.AtOnce) *permit.Key {
	at := id{l.Name, l.Key}
	k := t.keys[at]
	if k == nil {
		k = new(permit.Key)
		t.keys[at] = k
	}
	return k
}

// full tells whether there is no room for more, and counts anew before it says so.
func (t *Table) full(now time.Duration, more int) bool {
	if t.held+more <= Most {
		return false
	}
	t.held = 0
	for at, k := range t.keys {
		n := k.Held(int64(now))
		if t.held += n; n == 0 {
			delete(t.keys, at)
		}
	}
	return t.held+more > Most
}

// Each calls f with each key of which permits are held, by limit. f must not call the table.
func (t *Table) Each(now time.Duration, f func(limit, key string, held int)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for at, k := range t.keys {
		if n := k.Held(int64(now)); n > 0 {
			f(at.limit, at.key, n)
		}
	}
}
