// Package quarantine keeps hits of seconds that have not come yet, apart from those that count.
// Pure: no clock, no lock.
package quarantine

import (
	"math"
	"strings"

	"github.com/weir-counter/weir/internal/clock"
	"github.com/weir-counter/weir/window"
)

// Windows keeps the hits of seconds that have not come yet, by the wall clock and
// MaxAhead: what other nodes, snapshots and older lives bring of clocks that were
// wrong. A window's newest second decides which of its seconds are exact and which
// are too late, so such a second must not get into the window of a key or of all
// hits: it has a window of its own here, which answers count too, and which is merged
// into the key's when its time comes. Windows merge exactly, so in the end all nodes
// count the same, whatever their clocks said meanwhile.
//
// A window that has such a second already (of a clock that has run back, or of a
// snapshot) is quarantined as a whole, and the key goes on with an empty one.
//
// Refusing these hits was rejected: nodes whose clocks differ by some ms would count
// differently for ever. So was counting them as of now: each node would count them
// elsewhere.
type Windows struct {
	// Far are those that a clock which is wrong by minutes has brought; near ones
	// come in time, and must not wait for the far ones of their key.
	Near, Far map[string]*window.Window

	due int64 // the first newest second of all windows, if there are any
}

// Len is how many windows there are.
func (a *Windows) Len() int { return len(a.Near) + len(a.Far) }

// Empty tells whether there is none.
func (a *Windows) Empty() bool { return a.Len() == 0 }

// Settle counts n hits of a key in a second after limit, the last that has come.
// It returns the bytes that this takes.
func (a *Windows) Settle(none *window.Window, key string, second int64, n uint64, limit int64) (grown int) {
	one := none.Clone()
	one.Settle(second, n)
	return a.Take(key, &one, limit)
}

// Take adds a window whose newest second is after limit. It keeps w.
func (a *Windows) Take(key string, w *window.Window, limit int64) (grown int) {
	second, _ := w.Newest()
	none := a.Empty()
	tier := &a.Far
	if second <= limit+clock.Near {
		tier = &a.Near
	}
	if *tier == nil {
		*tier = map[string]*window.Window{}
	}
	if have := (*tier)[key]; have == nil {
		(*tier)[strings.Clone(key)] = w // it may be a part of something large
		grown = aheadBytes(key) + w.Size()
	} else {
		grown = -have.Size()
		MergeSame(have, w)
		grown += have.Size()
		second, _ = have.Newest()
	}
	if none || second < a.due {
		a.due = second
	}
	return grown
}

// aheadBytes is the memory of a key here, beside its window's.
func aheadBytes(key string) int { return 64 + len(key) }

// MergeSame merges windows of one engine: their retention is the same.
func MergeSame(to, from *window.Window) {
	if err := to.Merge(from); err != nil {
		panic(err)
	}
}

// Come hands out the windows whose newest second is at or before limit, and returns
// the bytes that they took.
func (a *Windows) Come(limit int64, f func(key string, w *window.Window)) (freed int) {
	if a.Empty() || a.due > limit {
		return 0
	}
	a.due = math.MaxInt64
	for _, tier := range []map[string]*window.Window{a.Near, a.Far} {
		for key, w := range tier {
			second, _ := w.Newest()
			if second > limit {
				a.due = min(a.due, second)
				continue
			}
			delete(tier, key)
			freed += aheadBytes(key) + w.Size()
			f(key, w)
		}
	}
	return freed
}

// Drop forgets a key, and returns the hits that it had here, the second of the newest
// and the bytes.
func (a *Windows) Drop(key string) (total uint64, newest int64, freed int) {
	if a.Empty() {
		return 0, 0, 0
	}
	for _, tier := range []map[string]*window.Window{a.Near, a.Far} {
		if w := tier[key]; w != nil {
			second, _ := w.Newest()
			total, newest = total+min(w.Total(), math.MaxUint64-total), max(newest, second)
			freed += aheadBytes(key) + w.Size()
			delete(tier, key)
		}
	}
	if len(a.Near)+len(a.Far) == 0 {
		*a = Windows{}
	}
	return total, newest, freed
}

// Forget drops all keys, and returns the bytes.
func (a *Windows) Forget() (freed int) {
	a.Each(func(key string, w *window.Window) { freed += aheadBytes(key) + w.Size() })
	*a = Windows{}
	return freed
}

// Each calls f with all windows; a key may have two.
func (a *Windows) Each(f func(key string, w *window.Window)) {
	for key, w := range a.Near {
		f(key, w)
	}
	for key, w := range a.Far {
		f(key, w)
	}
}

// of calls f with the windows of one key.
func (a *Windows) of(key string, f func(w *window.Window)) {
	if a.Empty() {
		return
	}
	if w := a.Near[key]; w != nil {
		f(w)
	}
	if w := a.Far[key]; w != nil {
		f(w)
	}
}

// Count is what a key has here in (at-seconds, at].
func (a *Windows) Count(key string, at, seconds int64) (c window.Count) {
	a.of(key, func(w *window.Window) { c = c.Plus(w.Count(at, seconds)) })
	return c
}

// Total is all that a key has here.
func (a *Windows) Total(key string) (n uint64) {
	a.of(key, func(w *window.Window) { n += min(w.Total(), math.MaxUint64-n) })
	return n
}
