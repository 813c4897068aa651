package weir

import "github.com/weir-counter/weir/window"

// Delta is what one key adds to a batch: N hits in the second At, or with N = 0
// the key's removal from memory on request.
type Delta struct {
	Key string
	At  int64 // Unix seconds
	N   uint64
}

// Cut is what a partition gathered since the cut before.
type Cut struct {
	Deltas []Delta // in the order in which they settled; a key and second may repeat
	State  []byte  // the partition after these deltas, if asked for: see LoadState
}

// gathering is what a partition's next cut has. Hits in live cells are not in
// deltas yet: active lists the entries whose cells may have some.
type gathering struct {
	active []*entry
	deltas []Delta
	total  window.Window // all hits that were cut or applied: AllKeys' share
}

// activate notes an entry whose live cell, with the given word, is about to be
// filled. The caller holds mu.
func (p *partition) activate(e *Engine, en *entry, word uint64) {
	if e.cfg.Gather && (word >= cellSpecial || cellHits(word) == 0) {
		p.active = append(p.active, en)
	}
}

// gather notes hits that settled, or a removal. The caller holds mu.
func (p *partition) gather(e *Engine, d Delta) {
	if e.cfg.Gather {
		p.deltas = append(p.deltas, d)
		e.waiting.Add(1)
	}
}

// Cut moves the partition's new hits into c, whose memory is used again. With
// Config.Gather, every hit is in exactly one cut: a hit that returned before Cut
// was called is in this one or an earlier one. With withState, c.State is the
// partition as it is after exactly the hits of all cuts so far, and of all
// Apply calls.
//
// It holds the partition's lock for O(deltas), with withState O(keys); nothing
// else of the engine waits.
func (e *Engine) Cut(partition int, c *Cut, withState bool) {
	p := &e.partitions[partition]
	p.mu.Lock()
	defer p.mu.Unlock()
	still := p.active[:0]
	for _, en := range p.active {
		word := en.cell.word.Load()
		switch hot := e.hot.of(en, word); {
		case hot != nil:
			hot.foldAll(cellIdle, p.settler(e, en))
			still = append(still, en)
		case word < cellSpecial:
			settleWord(en.cell.word.Swap(cellIdle), p.settler(e, en))
		}
	}
	clear(p.active[len(still):])
	p.active = still
	c.Deltas, p.deltas = p.deltas, c.Deltas[:0]
	e.waiting.Add(-int64(len(c.Deltas)))
	for _, d := range c.Deltas {
		p.total.Add(d.At, d.N)
	}
	c.State = c.State[:0]
	if withState {
		c.State = p.appendState(c.State, e, partition)
	}
	e.makeRoom(p)
}

// Apply counts deltas that come from a journal: from an earlier life of this
// process or from another node. They are not gathered again.
func (e *Engine) Apply(partition int, deltas []Delta) {
	p := &e.partitions[partition]
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range deltas {
		hash := e.hash(d.Key)
		en := p.table.Load().find(hash, d.Key)
		switch {
		case d.N > 0:
			if en == nil {
				en = p.insert(e, hash, d.Key)
			}
			p.addSettled(e, en, d.At, d.N)
			p.total.Add(d.At, d.N)
			e.total.hit(d.At, d.N)
			e.clock.advance(d.At)
		case en != nil:
			p.remove(e, en)
		}
	}
	e.makeRoom(p)
}
