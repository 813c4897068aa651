package weir

import "github.com/weir-counter/weir/window"

// What a partition does with seconds that have not come (ahead.go). The caller of
// all methods holds mu.

// settleAside counts hits of a key, or AllKeys, in a second after limit.
func (p *partition) settleAside(e *Engine, key string, second int64, n uint64, limit int64) {
	e.clock.setAside(second, n, limit)
	e.bytes.Add(int64(p.ahead.settle(&e.emptyWindow, key, second, n, limit)))
}

// setAside sets a key's window aside with all hits of its live cells, some of which are
// after limit: the clock has run back. The key goes on with an empty window.
func (p *partition) setAside(e *Engine, en *entry, limit int64) {
	settle := p.settler(e, en)
	word := en.cell.word.Load()
	if hot := e.hot.of(en, word); hot != nil {
		hot.foldAll(cellIdle, settle)
	} else if word < cellSpecial {
		settleWord(en.cell.word.Swap(cellIdle), settle)
	}
	newest, seen := en.window.Newest()
	if !seen || newest <= limit {
		return
	}
	was := en.window
	e.clock.setAside(newest, was.Total(), limit)
	en.window = e.emptyWindow
	p.grew(e, int64(en.window.Size()-was.Size()))
	e.bytes.Add(int64(p.ahead.take(en.key, &was, limit)))
}

// setAllAside sets aside what is further ahead of the clock than costs no precision.
func (p *partition) setAllAside(e *Engine, limit int64) {
	if newest, _ := p.total.Newest(); newest > limit+nearAhead {
		was := p.total
		p.total = e.emptyWindow
		e.bytes.Add(int64(p.total.Size() - was.Size() + p.ahead.take(AllKeys, &was, limit)))
	}
	p.table.Load().each(func(en *entry) {
		if e.newestOf(en) > limit+nearAhead {
			p.setAside(e, en, limit)
		}
	})
}

// look sets aside what a clock that has run back leaves ahead of it, and merges what has
// come. It returns the last second that has come. O(1), but O(keys) after a step back
// beyond what costs no precision.
func (p *partition) look(e *Engine) (limit int64) {
	limit = e.clock.limit()
	if limit < p.looked-nearAhead {
		p.setAllAside(e, limit)
		p.looked = limit
	}
	p.looked = max(p.looked, limit)
	if !p.ahead.empty() {
		p.merge(e, limit)
	}
	return limit
}

// merge puts the windows whose time has come where they belong.
func (p *partition) merge(e *Engine, limit int64) {
	freed := p.ahead.come(limit, func(key string, w *window.Window) {
		newest, _ := w.Newest()
		e.clock.advance(newest)
		if key == AllKeys {
			before := p.total.Size()
			mergeSame(&p.total, w)
			e.bytes.Add(int64(p.total.Size() - before))
			return
		}
		hash := e.hash(key)
		en := p.table.Load().find(hash, key)
		if en == nil {
			en = p.insert(e, hash, key)
		}
		before := en.window.Size()
		mergeSame(&en.window, w)
		p.grew(e, int64(en.window.Size()-before))
	})
	e.bytes.Add(int64(-freed))
}

// dropAhead forgets what a key has ahead of the clock: it is removed.
func (p *partition) dropAhead(e *Engine, key string) (had bool) {
	total, _, freed := p.ahead.drop(key)
	e.bytes.Add(int64(-freed))
	return total > 0
}

// evictAhead forgets keys that are ahead of the clock while the budget is exceeded, as
// evicted ones: those of a clock that is wrong by minutes first.
func (p *partition) evictAhead(e *Engine) {
	for _, tier := range []map[string]*window.Window{p.ahead.far, p.ahead.near} {
		for key := range tier {
			if !e.overBudget() {
				return
			}
			if key == AllKeys {
				continue
			}
			total, newest, freed := p.ahead.drop(key)
			e.bytes.Add(int64(-freed))
			p.forgotten.add(e, key, total, newest)
			e.departed.evictedKeys.Add(1)
			e.departed.evictedHits.Add(total)
		}
	}
}
