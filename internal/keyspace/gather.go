package keyspace

import (
	"github.com/weir-counter/weir/internal/live"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/window"
)

// gathering is what a partition's next cut has. Hits in live cells are not in
// deltas yet: active lists the entries whose cells may have some.
type gathering struct {
	active        []*entry // one that was hot may be listed twice
	kept          int      // how many of them, hot ones, have been through a cut
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
	if p.shared.gather && (word >= live.Special || live.Hits(word) == 0) {
		p.active = append(p.active, en)
		p.bytes += waitingBytes(en.Key())
		p.tellWaiting()
	}
}

// tellWaiting keeps Engine.waiting up to date. It does so only now and then: every
// hit reads it, and would wait for the cache line if every other wrote it. What
// it knows is at most an eighth too little. The caller holds mu.
func (p *partition) tellWaiting() {
	waiting := len(p.active) - p.kept + len(p.deltas) + len(p.past) + len(p.pastRemoved)
	if news := waiting - p.told; news < 0 || news > p.told/8 {
		p.shared.waiting.entries.Add(int64(news))
		p.shared.waiting.bytes.Add(int64(p.bytes - p.toldBytes))
		p.told, p.toldBytes = waiting, p.bytes
	}
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
