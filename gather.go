package weir

// Delta is what one key adds to a batch: N hits in the second At, or with N = 0
// the key's removal from memory on request.
type Delta struct {
	Key string
	At  int64 // Unix seconds
	N   uint64
}

// gathering is what a partition's next batch has, while a journal asks for
// batches. Hits in live cells are not in deltas yet: active lists the entries
// whose cells may have some.
type gathering struct {
	on     bool
	active []*entry
	deltas []Delta
}

// activate notes an entry whose live cell, with the given word, is about to be
// filled.
func (g *gathering) activate(en *entry, word uint64) {
	if g.on && (word >= cellSpecial || cellHits(word) == 0) {
		g.active = append(g.active, en)
	}
}

func (p *partition) gather(e *Engine, d Delta) {
	if p.on {
		p.deltas = append(p.deltas, d)
	}
}
