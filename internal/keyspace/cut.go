package keyspace

import (
	"slices"

	"github.com/weir-counter/weir/internal/live"
	"github.com/weir-counter/weir/internal/replication"
)

// Cut moves the partition's new hits into c, and its state, if it is asked for: see
// replication.Engine.Cut. limits does the same for its limits, with the writer of the state,
// or nil, before anybody else may change the partition.
func (k *Keyspace) Cut(number int, c *replication.Cut, withState bool, limits func(w *replication.StateWriter)) {
	p := &k.partitions[number]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutDeltas(c)
	c.State = c.State[:0]
	if withState {
		w := p.state(c.State, len(k.partitions), number)
		limits(w)
		c.State = w.Seal()
	} else {
		limits(nil)
	}
	k.makeRoom(p)
}

// cutDeltas moves the new hits into c. The caller holds mu.
func (p *partition) cutDeltas(c *replication.Cut) {
	held := !p.away.Load()
	limit := p.look()
	if held {
		p.cutCells()
	} else {
		p.letGo()
	}
	c.Deltas, p.deltas = p.deltas, c.Deltas[:0]
	c.Past, p.past, p.pastCompactAt = p.past, c.Past[:0], 0
	c.PastRemoved, p.pastRemoved = p.pastRemoved, c.PastRemoved[:0]
	p.bytes = 0
	for _, en := range p.active { // each may have hits again before anybody counts them as waiting
		p.bytes += waitingBytes(en.Key())
	}
	p.tell()
	if held {
		p.settleTotal(c.Deltas, limit)
	}
}

// cutBlock is how many entries cutCells looks at together.
const cutBlock = 64

// cutCells settles the hits in live cells. An entry that was not hit a moment ago
// is a cache miss, and most of what a cut costs: so it loads the words of a block
// of entries, then empties the cells, then settles, and the processor waits for
// many of them at once. A key that was hit is likely hit again before the next cut:
// its cell stays at its second, and its entry listed, so that this hit takes no lock.
// The caller holds mu.
func (p *partition) cutCells() {
	p.cuts++
	still := p.active[:0]
	p.deltas = slices.Grow(p.deltas, len(p.active))
	var words [cutBlock]uint64
	for block := range slices.Chunk(p.active, cutBlock) {
		for i, en := range block {
			words[i] = en.Value.cell.Word.Load()
		}
		for i, en := range block {
			if words[i] < live.Special { // and will be until mu is let go
				words[i] = en.Value.take(words[i])
			}
		}
		for i, en := range block {
			switch hot := p.shared.hot.of(en, words[i]); {
			case hot != nil && hot.cut == p.cuts: // listed twice
			case hot != nil:
				hot.cut = p.cuts
				hot.FoldAll(live.Idle, p.settler(en))
				still = append(still, en)
			case words[i] < live.Special && live.Hits(words[i]) > 0:
				second, n := live.Second(words[i]), live.Hits(words[i])
				p.addSettled(en, second, n)
				p.deltas = append(p.deltas, replication.Delta{Key: en.Key(), At: second, N: n})
				if en.Value.cell.Word.Load() != live.Idle {
					still = append(still, en)
				}
			}
		}
	}
	p.kept = len(still)
	clear(p.active[len(still):])
	p.active = still
}

// take empties a live cell that had a word a moment ago, and returns the word that it has had
// now. The cell is idle after it unless it had hits at the key's newest second. The caller holds
// the partition's lock, and the word is not special.
func (c *counted) take(word uint64) uint64 {
	if live.Hits(word) == 0 && c.cell.Word.CompareAndSwap(word, live.Idle) {
		return live.Idle
	}
	if newest, seen := c.window.Newest(); seen && newest > live.Second(word) {
		return c.cell.Word.Swap(live.Idle)
	}
	return c.cell.Word.Swap(live.Emptied(word))
}

// settleTotal counts deltas in the partition's share of allKeys.
func (p *partition) settleTotal(deltas []replication.Delta, limit int64) {
	before := p.total.Size()
	EachSecond(deltas, func(second int64, n uint64) {
		if second > limit {
			p.shared.bytes.Add(int64(p.quarantine.Settle(&p.shared.empty, allKeys, second, n, limit)))
			return
		}
		p.total.Settle(second, n)
	})
	p.shared.bytes.Add(int64(p.total.Size() - before))
}
