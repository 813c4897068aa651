package weir

import (
	"math"

	"github.com/weir-counter/weir/window"
)

// ahead keeps the hits of seconds that have not come yet, by the wall clock and
// MaxAhead: what other nodes, snapshots and older lives bring of clocks that were
// wrong. A window's newest second decides which of its seconds are exact and which
// are too late, so such a second must not get into the window of a key or of all
// hits: it has a window of its own here, which answers count too, and which is merged
// into the key's when its time comes. Windows merge exactly, so in the end all nodes
// count the same, whatever their clocks said meanwhile.
//
// A window that has such a second already (of a clock that has run back, or of a
// snapshot) is set aside as a whole, and the key goes on with an empty one.
//
// Refusing these hits was rejected: nodes whose clocks differ by some ms would count
// differently for ever. So was counting them as of now: each node would count them
// elsewhere.
type ahead struct {
	// far are those that a clock which is wrong by minutes has brought; near ones
	// come in time, and must not wait for the far ones of their key.
	near, far map[string]*window.Window

	due int64 // the first newest second of all windows, if there are any
}

// nearAhead is how far, in seconds, a window's newest second may be ahead of the
// clock while windows of 300 s that end now are exact: 300 of the newest 511 s.
const nearAhead = 200

func (a *ahead) empty() bool { return len(a.near)+len(a.far) == 0 }

// settle counts n hits of a key in a second after limit, the last that has come.
// It returns the bytes that this takes.
func (a *ahead) settle(none *window.Window, key string, second int64, n uint64, limit int64) (grown int) {
	var one window.Window
	one = none.Clone()
	one.Settle(second, n)
	return a.take(key, &one, limit)
}

// take adds a window whose newest second is after limit. It keeps w.
func (a *ahead) take(key string, w *window.Window, limit int64) (grown int) {
	second, _ := w.Newest()
	none := a.empty()
	tier := &a.far
	if second <= limit+nearAhead {
		tier = &a.near
	}
	if *tier == nil {
		*tier = map[string]*window.Window{}
	}
	if have := (*tier)[key]; have == nil {
		(*tier)[key] = w
		grown = aheadBytes(key) + w.Size()
	} else {
		grown = -have.Size()
		mergeSame(have, w)
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

// mergeSame merges windows of one engine: their retention is the same.
func mergeSame(to, from *window.Window) {
	if err := to.Merge(from); err != nil {
		panic(err)
	}
}

// come hands out the windows whose newest second is at or before limit, and returns
// the bytes that they took.
func (a *ahead) come(limit int64, f func(key string, w *window.Window)) (freed int) {
	if a.empty() || a.due > limit {
		return 0
	}
	a.due = math.MaxInt64
	for _, tier := range []map[string]*window.Window{a.near, a.far} {
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

// drop forgets a key, and returns the hits that it had here, the second of the newest
// and the bytes.
func (a *ahead) drop(key string) (total uint64, newest int64, freed int) {
	if a.empty() {
		return 0, 0, 0
	}
	for _, tier := range []map[string]*window.Window{a.near, a.far} {
		if w := tier[key]; w != nil {
			second, _ := w.Newest()
			total, newest = total+min(w.Total(), math.MaxUint64-total), max(newest, second)
			freed += aheadBytes(key) + w.Size()
			delete(tier, key)
		}
	}
	if len(a.near)+len(a.far) == 0 {
		*a = ahead{}
	}
	return total, newest, freed
}

// forget drops all keys, and returns the bytes.
func (a *ahead) forget() (freed int) {
	a.each(func(key string, w *window.Window) { freed += aheadBytes(key) + w.Size() })
	*a = ahead{}
	return freed
}

func (a *ahead) each(f func(key string, w *window.Window)) {
	for key, w := range a.near {
		f(key, w)
	}
	for key, w := range a.far {
		f(key, w)
	}
}

// of calls f with the windows of one key.
func (a *ahead) of(key string, f func(w *window.Window)) {
	if a.empty() {
		return
	}
	if w := a.near[key]; w != nil {
		f(w)
	}
	if w := a.far[key]; w != nil {
		f(w)
	}
}

// count is what a key has here in (at-seconds, at].
func (a *ahead) count(key string, at, seconds int64) (c Count) {
	a.of(key, func(w *window.Window) { c = c.Plus(w.Count(at, seconds)) })
	return c
}

// total is all that a key has here.
func (a *ahead) total(key string) (n uint64) {
	a.of(key, func(w *window.Window) { n += min(w.Total(), math.MaxUint64-n) })
	return n
}

func (a *aheadWindow) newest() int64 {
	second, _ := a.window.Newest()
	return second
}
