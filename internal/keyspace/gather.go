package keyspace

import (
	"github.com/weir-counter/weir/internal/live"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/window"
)

// gathering is what a partition's next cut has. Hits in live cells are not in
// deltas yet: active lists the entries whose cells may have some.
type gathering struct {
	active        []*entry // all whose cells are not idle; some may be listed twice
	kept          int      // how many of them have been through a cut
	deltas        []replication.Delta
	past          []replication.Delta // hits for history alone (past.go)
	pastRemoved   []replication.Delta // and those before a removal of their key
	bytes         int                 // what deltas, past and active take in a batch, at most
	told          int                 // how many of deltas and active Engine.waiting knows of
	toldBytes     int                 // and how many bytes
	compactAt     int                 // deltas at which equal ones are added up
	pastCompactAt int                 // and those of past
	cuts          uint64              // so far
	gone          map[string]int      // own removals of a key that did not come back from the journal
	total         window.Window       // all hits that were cut or applied: allKeys' share
}

// activate notes an entry whose live cell, with the given word, is about to be
// filled. The caller holds mu.
func (p *partition) activate(en *entry, word uint64) {
	if p.shared.gather && word == live.Idle {
		p.active = append(p.active, en)
		p.bytes += waitingBytes(en.Key())
		p.tellWaiting()
	}
}

// tellWaiting keeps Engine.waiting up to date. It does so only now and then: every
// hit reads it, and would wait for the cache line if every other wrote it. What
// it knows is at most an eighth too little, and one entry for each that was kept. The
// caller holds mu.
func (p *partition) tellWaiting() {
	if news := p.waiting() - p.told; news < 0 || news > p.told/8 {
		p.tell()
	}
}

func (p *partition) tell() {
	waiting := p.waiting()
	p.shared.waiting.entries.Add(int64(waiting - p.told))
	p.shared.waiting.bytes.Add(int64(p.bytes - p.toldBytes))
	p.told, p.toldBytes = waiting, p.bytes
}

// waiting is how many entries the next cut has, but for those of cells that were kept.
func (p *partition) waiting() int {
	return len(p.active) - p.kept + len(p.deltas) + len(p.past) + len(p.pastRemoved)
}

// gather notes hits that settled, or a removal. The caller holds mu.
func (p *partition) gather(d replication.Delta) {
	if !p.shared.gather {
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
	p.tellWaiting()
}
