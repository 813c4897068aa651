package weir

import (
	"slices"

	"github.com/weir-counter/weir/window"
)

// Delta is what one key adds to a batch: N hits in the second At, or with N = 0
// the key's removal from memory on request.
type Delta struct {
	Key string
	At  int64 // Unix seconds
	N   uint64
}

// Cut is what a partition gathered since the cut before.
type Cut struct {
	Deltas     []Delta     // in the order in which they settled; a key and second may repeat
	Admissions []Admission // of limits that survive a restart
	State      []byte      // the partition after all these, if asked for: see LoadState
}

// gathering is what a partition's next cut has. Hits in live cells are not in
// deltas yet: active lists the entries whose cells may have some.
type gathering struct {
	active    []*entry // one that was hot may be listed twice
	kept      int      // how many of them, hot ones, have been through a cut
	deltas    []Delta
	bytes     int            // what deltas and active take in a batch, at most
	told      int            // how many of deltas and active Engine.waiting knows of
	toldBytes int            // and how many bytes
	compactAt int            // deltas at which equal ones are added up
	cuts      uint64         // so far
	gone      map[string]int // own removals of a key that did not come back from the journal
	total     window.Window  // all hits that were cut or applied: AllKeys' share
}

// activate notes an entry whose live cell, with the given word, is about to be
// filled. The caller holds mu.
func (p *partition) activate(e *Engine, en *entry, word uint64) {
	if e.cfg.Gather && (word >= cellSpecial || cellHits(word) == 0) {
		p.active = append(p.active, en)
		p.bytes += waitingBytes(en.key)
		p.tellWaiting(e)
	}
}

// tellWaiting keeps Engine.waiting up to date. It does so only now and then: every
// hit reads it, and would wait for the cache line if every other wrote it. What
// it knows is at most an eighth too little. The caller holds mu.
func (p *partition) tellWaiting(e *Engine) {
	waiting := len(p.active) - p.kept + len(p.deltas)
	if news := waiting - p.told; news < 0 || news > p.told/8 {
		e.waiting.entries.Add(int64(news))
		e.waiting.bytes.Add(int64(p.bytes - p.toldBytes))
		p.told, p.toldBytes = waiting, p.bytes
	}
}

// gather notes hits that settled, or a removal. The caller holds mu.
func (p *partition) gather(e *Engine, d Delta) {
	if !e.cfg.Gather {
		return
	}
	p.deltas = append(p.deltas, d)
	p.bytes += waitingBytes(d.Key)
	if len(p.deltas) > p.compactAt {
		p.bytes -= bytesOf(p.deltas)
		p.deltas = compact(p.deltas)
		p.bytes += bytesOf(p.deltas)
		p.compactAt = max(compactFirst, 2*len(p.deltas))
	}
	p.tellWaiting(e)
}

// compactFirst is how many deltas are not worth adding up.
const compactFirst = 2048

// compact adds up the deltas of equal key and second: late hits settle one by
// one, but a batch grows with keys and seconds, not with hits. None is moved
// across a removal.
func compact(deltas []Delta) []Delta {
	type place struct {
		key string
		at  int64
	}
	places := make(map[place]int, len(deltas))
	kept := deltas[:0]
	for _, d := range deltas {
		if d.N == 0 {
			clear(places)
		} else if i, ok := places[place{d.Key, d.At}]; ok && kept[i].N+d.N > d.N {
			kept[i].N += d.N
			continue
		} else {
			places[place{d.Key, d.At}] = len(kept)
		}
		kept = append(kept, d)
	}
	clear(deltas[len(kept):])
	return kept
}

// Cut moves the partition's new hits and admissions into c, whose memory is used again. With
// Config.Gather, every hit is in exactly one cut: a hit that returned before Cut
// was called is in this one or an earlier one. With withState, c.State is the
// partition as it is after exactly the hits of all cuts so far, and of all
// Apply calls; it must be held.
//
// It holds the partition's lock for O(deltas), with withState O(keys); nothing
// else of the engine waits.
func (r *Replication) Cut(partition int, c *Cut, withState bool) {
	e := r.engine
	p := &e.partitions[partition]
	p.mu.Lock()
	defer p.mu.Unlock()
	held := !p.away.Load()
	limit := p.look(e)
	if held {
		p.cutCells(e)
	} else {
		p.letGo(e)
	}
	c.Deltas, p.deltas, p.bytes = p.deltas, c.Deltas[:0], 0
	p.tellWaiting(e)
	if held {
		p.settleTotal(e, c.Deltas, limit)
	}
	share := &e.limits.shares[partition]
	share.mu.Lock()
	defer share.mu.Unlock()
	c.Admissions = share.cut(c.Admissions[:0], &e.limits.clock)
	c.State = c.State[:0]
	if withState {
		c.State = p.appendState(c.State, e, partition)
	}
	e.makeRoom(p)
}

// cutBlock is how many entries cutCells looks at together.
const cutBlock = 64

// cutCells settles the hits in live cells. An entry that was not hit a moment ago
// is a cache miss, and most of what a cut costs: so it loads the words of a block
// of entries, then empties the cells, then settles, and the processor waits for
// many of them at once. The caller holds mu.
func (p *partition) cutCells(e *Engine) {
	p.cuts++
	still := p.active[:0]
	p.deltas = slices.Grow(p.deltas, len(p.active))
	var words [cutBlock]uint64
	for block := range slices.Chunk(p.active, cutBlock) {
		for i, en := range block {
			words[i] = en.cell.word.Load()
		}
		for i, en := range block {
			if words[i] < cellSpecial { // and will be until mu is let go
				words[i] = en.cell.word.Swap(cellIdle)
			}
		}
		for i, en := range block {
			switch hot := e.hot.of(en, words[i]); {
			case hot != nil && hot.cut == p.cuts: // listed twice
			case hot != nil:
				hot.cut = p.cuts
				hot.foldAll(cellIdle, p.settler(e, en))
				still = append(still, en)
			case words[i] < cellSpecial && cellHits(words[i]) > 0:
				second, n := cellSecond(words[i]), cellHits(words[i])
				p.addSettled(e, en, second, n)
				p.deltas = append(p.deltas, Delta{en.key, second, n})
			}
		}
	}
	p.kept = len(still)
	clear(p.active[len(still):])
	p.active = still
}

// settleTotal counts deltas in the partition's share of AllKeys.
func (p *partition) settleTotal(e *Engine, deltas []Delta, limit int64) {
	before := p.total.Size()
	eachSecond(deltas, func(second int64, n uint64) {
		if second > limit {
			e.bytes.Add(int64(p.ahead.settle(&e.emptyWindow, AllKeys, second, n, limit)))
			return
		}
		p.total.Settle(second, n)
	})
	e.bytes.Add(int64(p.total.Size() - before))
}

// eachSecond calls f with the hits for AllKeys of each run of deltas in one second:
// most batches have one or two. Removals, and keys that are counted apart, are
// passed over.
func eachSecond(deltas []Delta, f func(second int64, n uint64)) {
	for len(deltas) > 0 {
		at, n, same := deltas[0].At, deltas[0].forAll(), 1
		for same < len(deltas) && deltas[same].At == at && n+deltas[same].N >= n {
			n += deltas[same].forAll()
			same++
		}
		if n > 0 {
			f(at, n)
		}
		deltas = deltas[same:]
	}
}

// forAll is what a delta adds to AllKeys.
func (d *Delta) forAll() uint64 {
	if apart(d.Key) {
		return 0
	}
	return d.N
}

// Apply counts deltas that come from a journal: from an earlier life of this
// process or from another node. They are not gathered again. Those of a second that
// has not come, by the wall clock and MaxAhead, count where they belong and change
// nothing else: see Stats.Ahead.
//
// The order of a journal is that of all nodes, and own hits and removals are here
// before they are in it. So a hit that is applied while an own removal of its key is on
// its way there (Confirm) was before that, and counts for AllKeys alone. A removal that
// is applied does not take own hits that are on their way: own gives those of a key that
// were cut, with the removals between them, in order; nil: there are none.
func (r *Replication) Apply(partition int, deltas []Delta, own func(key string) []Delta) {
	e := r.engine
	e.apply(&e.partitions[partition], deltas, own)
	eachSecond(deltas, e.total.settle)
}

// ApplyOwn is Apply of own hits that were cut while their partition was not held: they
// are in Stats already.
func (r *Replication) ApplyOwn(partition int, deltas []Delta, own func(key string) []Delta) {
	e := r.engine
	e.apply(&e.partitions[partition], deltas, own)
}

// apply is Apply without AllKeys' own counter.
func (e *Engine) apply(p *partition, deltas []Delta, own func(key string) []Delta) {
	p.mu.Lock()
	defer p.mu.Unlock()
	limit := p.look(e)
	for block := range slices.Chunk(deltas, lookUpBlock) {
		p.applyBlock(e, block, own, limit)
	}
	p.settleTotal(e, deltas, limit)
	if e.clock.kind == EventClock {
		for _, d := range deltas {
			if d.N > 0 && d.At <= limit {
				e.clock.advance(d.At)
			}
		}
	}
	if !p.away.Load() { // else it is on its way, and Hold makes room
		e.makeRoom(p)
	}
}

// lookUpBlock is how many keys applyBlock looks up together.
const lookUpBlock = 64

// applyBlock counts some deltas. As in cutCells, most of the time would go into
// one cache miss after the other: so it touches the buckets of all keys, then
// their entries, and only then counts. The caller holds mu.
func (p *partition) applyBlock(e *Engine, deltas []Delta, own func(key string) []Delta, limit int64) {
	var hashes [lookUpBlock]uint64
	var entries [lookUpBlock]*entry // nil: look again
	t := p.table.Load()
	for i, d := range deltas {
		hashes[i] = e.hash(d.Key)
		t.touch(hashes[i])
	}
	for i, d := range deltas {
		entries[i] = t.find(hashes[i], d.Key)
	}
	for i, d := range deltas {
		en := entries[i]
		if en == nil {
			en = p.table.Load().find(hashes[i], d.Key)
		}
		switch {
		case d.N > 0 && p.gone[d.Key] > 0: // it was before a removal of ours
		case d.N > 0 && d.At > limit:
			p.settleAside(e, d.Key, d.At, d.N, limit)
		case d.N > 0:
			if en == nil {
				en = p.insert(e, hashes[i], d.Key)
			}
			p.addSettled(e, en, d.At, d.N)
		case en != nil:
			p.dropAhead(e, d.Key)
			p.remove(e, en)
			p.restore(e, hashes[i], d.Key, own, limit)
			clear(entries[i+1:]) // one of them may be this one
		default:
			p.dropAhead(e, d.Key)
		}
	}
}

// restore counts own hits of a key again that come after its removal in the journal.
// The caller holds mu.
func (p *partition) restore(e *Engine, hash uint64, key string, own func(key string) []Delta, limit int64) {
	var hits []Delta
	note := func(d Delta) {
		switch {
		case d.Key != key:
		case d.N == 0:
			hits = hits[:0]
		default:
			hits = append(hits, d)
		}
	}
	if own != nil {
		for _, d := range own(key) {
			note(d)
		}
	}
	for _, d := range p.deltas {
		note(d)
	}
	if len(hits) == 0 {
		return
	}
	en := p.insert(e, hash, key)
	for _, d := range hits {
		if d.At > limit { // the clock has run back since
			p.settleAside(e, key, d.At, d.N, limit)
		} else {
			p.addSettled(e, en, d.At, d.N)
		}
	}
}

// Confirm tells that an own removal of a key, of a cut, came back from the journal, or
// that nothing will be applied that is before it.
func (r *Replication) Confirm(partition int, key string) {
	e := r.engine
	p := &e.partitions[partition]
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone[key]--; p.gone[key] <= 0 {
		delete(p.gone, key)
	}
}
