package keyspace

import (
	"github.com/weir-counter/weir/internal/clock"
	"github.com/weir-counter/weir/internal/live"
	"github.com/weir-counter/weir/internal/quarantine"
	"github.com/weir-counter/weir/window"
)

// What a partition does with seconds that have not come. The caller of
// all methods holds mu.

// quarantineHits counts hits of a key, or allKeys, in a second after limit.
func (p *partition) quarantineHits(key string, second int64, n uint64, limit int64) {
	p.shared.clock.NoteQuarantined(second, n, limit)
	p.shared.bytes.Add(int64(p.quarantine.Settle(&p.shared.empty, key, second, n, limit)))
}

// quarantineWindow quarantines a key's window with all hits of its live cells, some of which are
// after limit: the clock has run back. The key goes on with an empty window.
func (p *partition) quarantineWindow(en *entry, limit int64) {
	settle := p.settler(en)
	word := en.Value.cell.Word.Load()
	if hot := p.shared.hot.of(en, word); hot != nil {
		hot.FoldAll(live.Idle, settle)
	} else if word < live.Special {
		live.Settle(en.Value.cell.Word.Swap(live.Idle), settle)
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
	if newest, _ := p.total.Newest(); newest > limit+clock.Near {
		was := p.total
		p.total = p.shared.empty
		p.shared.bytes.Add(int64(p.total.Size() - was.Size() + p.quarantine.Take(allKeys, &was, limit)))
	}
	p.table.Load().Each(func(en *entry) {
		if p.newestOf(en) > limit+clock.Near {
			p.quarantineWindow(en, limit)
		}
	})
}

// look quarantines what a clock that has run back leaves ahead of it, and merges what has
// come. It returns the last second that has come. O(1), but O(keys) after a step back
// beyond what costs no precision.
func (p *partition) look() (limit int64) {
	limit = p.shared.clock.Limit()
	if limit < p.looked-clock.Near {
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
			quarantine.MergeSame(&p.total, w)
			p.shared.bytes.Add(int64(p.total.Size() - before))
			return
		}
		hash := p.shared.hash(key)
		en := p.table.Load().Find(hash, key)
		if en == nil {
			en = p.insert(hash, key)
		}
		before := en.Value.window.Size()
		quarantine.MergeSame(&en.Value.window, w)
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

// evictQuarantined forgets keys that are ahead of the clock while the budget is exceeded, as
// evicted ones: those of a clock that is wrong by minutes first.
func (p *partition) evictQuarantined() {
	for _, tier := range []map[string]*window.Window{p.quarantine.Far, p.quarantine.Near} {
		for key := range tier {
			if !p.shared.overBudget() {
				return
			}
			if key == allKeys {
				continue
			}
			total, newest, freed := p.quarantine.Drop(key)
			p.shared.bytes.Add(int64(-freed))
			p.shared.bytes.Add(p.evicted.Add(key, total, newest))
			p.shared.departed.evictedKeys.Add(1)
			p.shared.departed.evictedHits.Add(total)
		}
	}
}
