package keyspace

import (
	"math"
	"strings"

	"github.com/weir-counter/weir/window"
)

// What a partition does with seconds that have not come. The caller of all methods holds mu.

// quarantineHits counts hits of a key, or allKeys, in a second after limit.
func (p *partition) quarantineHits(key string, second int64, n uint64, limit int64) {
	p.shared.clock.NoteQuarantined(second, n, limit)
	p.shared.noteSampled(key)
	p.shared.bytes.Add(int64(p.quarantine.Settle(&p.shared.empty, key, second, n, limit)))
}

// quarantineWindow quarantines a key's window with all hits of its live cells, some of which are
// after limit: the clock has run back. The key goes on with an empty window.
func (p *partition) quarantineWindow(en *entry, limit int64) {
	settle := p.settler(en)
	word := en.Value.cell.Word.Load()
	if hot := p.shared.hot.find(en, word); hot != nil {
		hot.FoldAll(Idle, settle)
	} else if word < Special {
		SettleCell(en.Value.cell.Word.Swap(Idle), settle)
	}
	newest, seen := en.Value.window.Newest()
	if !seen || newest <= limit {
		return
	}
	was := en.Value.window
	p.shared.clock.NoteQuarantined(newest, was.Total(), limit)
	en.Value.window = p.shared.empty
	p.grew(int64(en.Value.window.Size() - was.Size()))
	p.shared.bytes.Add(int64(p.quarantine.Take(en.Key(), &was, limit)))
}

// quarantineAll quarantines what is further ahead of the clock than costs no precision.
func (p *partition) quarantineAll(limit int64) {
	if newest, _ := p.total.Newest(); newest > limit+Near {
		was := p.total
		p.total = p.shared.empty
		p.shared.bytes.Add(int64(p.total.Size() - was.Size() + p.quarantine.Take(allKeys, &was, limit)))
	}
	p.table.Load().Each(func(en *entry) {
		if p.newestOf(en) > limit+Near {
			p.quarantineWindow(en, limit)
		}
	})
}

// look quarantines hits that are ahead of the clock since it was set back, and merges hits whose time has come. It returns the last
// second that has come. O(1), but O(keys) after a step back beyond what costs no precision.
func (p *partition) look() (limit int64) {
	limit = p.shared.clock.Limit()
	if limit < p.looked-Near {
		p.quarantineAll(limit)
		p.looked = limit
	}
	p.looked = max(p.looked, limit)
	if !p.quarantine.Empty() {
		p.merge(limit)
	}
	return limit
}

// merge puts the windows whose time has come where they belong.
func (p *partition) merge(limit int64) {
	freed := p.quarantine.Come(limit, func(key string, w *window.Window) {
		newest, _ := w.Newest()
		p.shared.clock.Advance(newest)
		if key == allKeys {
			before := p.total.Size()
			MergeQuarantined(&p.total, w)
			p.shared.bytes.Add(int64(p.total.Size() - before))
			return
		}
		hash := p.shared.hash(key)
		en := p.table.Load().Find(hash, key)
		if en == nil {
			en = p.insert(hash, key)
		}
		before := en.Value.window.Size()
		MergeQuarantined(&en.Value.window, w)
		p.grew(int64(en.Value.window.Size() - before))
	})
	p.shared.bytes.Add(int64(-freed))
}

// dropQuarantined forgets what a key has ahead of the clock: it is removed.
func (p *partition) dropQuarantined(key string) (had bool) {
	total, _, freed := p.quarantine.Drop(key)
	p.shared.bytes.Add(int64(-freed))
	return total > 0
}

// evictQuarantined forgets keys that are ahead of the clock while the budget is exceeded, as evicted ones. It begins
// with keys from a clock that is wrong by minutes.
func (p *partition) evictQuarantined() {
	for _, tier := range []map[string]*window.Window{p.quarantine.Far, p.quarantine.Near} {
		for key := range tier {
			if !p.shared.overBudget() {
				return
			}
			if key == allKeys || strings.HasPrefix(key, SampledPrefix) {
				continue
			}
			p.dropQuarantined(SampledPrefix + key)
			total, newest, freed := p.quarantine.Drop(key)
			p.shared.bytes.Add(int64(-freed))
			p.shared.bytes.Add(p.evicted.Add(key, total, newest))
			p.shared.departed.evictedKeys.Add(1)
			p.shared.departed.evictedHits.Add(total)
		}
	}
}

// The code below keeps hits of seconds that have not come yet, apart from those that count. Pure: no clock, no lock.

// Quarantine keeps the hits of seconds that have not come yet, by the wall clock and MaxAhead. Such hits come with
// other nodes, snapshots and earlier lives whose clocks were wrong.
//
// A window's newest second decides which of its seconds are exact and which are too late. A second that has not come
// must therefore not get into the window of a key or of all hits. It has a window of its own here. Answers count that
// window too, and it is merged into the key's window when its time comes. Windows merge exactly, so in the end all
// nodes count the same, whatever their clocks said meanwhile.
//
// A window may have such a second already, from a clock that has run back or from a snapshot. It is then quarantined as
// a whole, and the key continues with an empty one.
//
// Refusing these hits was rejected: nodes whose clocks differ by some ms would count differently for ever. Counting
// them now was rejected too: each node would count them at another time.
type Quarantine struct {
	// Far has the seconds from a clock that is wrong by minutes. Near seconds come in time, and must not wait for the
	// far ones of their key.
	Near, Far map[string]*window.Window

	due int64 // the first newest second of all windows, if there are any
}

// Len is how many windows there are.
func (a *Quarantine) Len() int { return len(a.Near) + len(a.Far) }

// Empty reports whether there is none.
func (a *Quarantine) Empty() bool { return a.Len() == 0 }

// Settle counts n hits of a key in a second after limit, the last that has come. It returns the bytes that this takes.
func (a *Quarantine) Settle(none *window.Window, key string, second int64, n uint64, limit int64) (grown int) {
	one := none.Clone()
	one.Settle(second, n)
	return a.Take(key, &one, limit)
}

// Take adds a window whose newest second is after limit. It keeps w.
func (a *Quarantine) Take(key string, w *window.Window, limit int64) (grown int) {
	second, _ := w.Newest()
	none := a.Empty()
	tier := &a.Far
	if second <= limit+Near {
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
		MergeQuarantined(have, w)
		grown += have.Size()
		second, _ = have.Newest()
	}
	if none || second < a.due {
		a.due = second
	}
	return grown
}

// aheadBytes is the memory of a key here, without its window.
func aheadBytes(key string) int { return 64 + len(key) }

// MergeQuarantined merges windows of one engine: their retention is the same.
func MergeQuarantined(to, from *window.Window) {
	if err := to.Merge(from); err != nil {
		panic(err)
	}
}

// Come hands out the windows whose newest second is at or before limit, and returns the bytes that they took.
func (a *Quarantine) Come(limit int64, f func(key string, w *window.Window)) (freed int) {
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

// Drop forgets a key, and returns the hits that it had here, the second of the newest and the bytes.
func (a *Quarantine) Drop(key string) (total uint64, newest int64, freed int) {
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
		*a = Quarantine{}
	}
	return total, newest, freed
}

// Retract takes n hits of a key at a second back, as far as they are here, and returns the bytes that this frees.
func (a *Quarantine) Retract(key string, second int64, n uint64) (freed int) {
	for _, tier := range []map[string]*window.Window{a.Near, a.Far} {
		w := tier[key]
		if w == nil || n == 0 {
			continue
		}
		freed += w.Size()
		n -= w.Retract(second, n)
		freed -= w.Size()
		newest, _ := w.Newest()
		a.due = min(a.due, newest)
	}
	return freed
}

// Forget drops all keys, and returns the bytes.
func (a *Quarantine) Forget() (freed int) {
	a.Each(func(key string, w *window.Window) { freed += aheadBytes(key) + w.Size() })
	*a = Quarantine{}
	return freed
}

// Each calls f with all windows; a key may have two.
func (a *Quarantine) Each(f func(key string, w *window.Window)) {
	for key, w := range a.Near {
		f(key, w)
	}
	for key, w := range a.Far {
		f(key, w)
	}
}

// windows calls f with the windows of one key.
func (a *Quarantine) windows(key string, f func(w *window.Window)) {
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
func (a *Quarantine) Count(key string, at, seconds int64) (c window.Count) {
	a.windows(key, func(w *window.Window) { c = c.Plus(w.Count(at, seconds)) })
	return c
}

// Total is all that a key has here.
func (a *Quarantine) Total(key string) (n uint64) {
	a.windows(key, func(w *window.Window) { n += min(w.Total(), math.MaxUint64-n) })
	return n
}
