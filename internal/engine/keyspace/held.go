package keyspace

import (
	"sync/atomic"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/window"
)

// An engine may hold only some of its partitions, while the engines of other nodes hold the others. It also takes hits
// of a partition that it does not hold, for the journal, and forgets them with the cut that has them. It refuses
// questions about such a partition; a holder answers them.

// Holds reports whether a partition is held. At first all are.
func (k *Keyspace) Holds(partition int) bool { return !k.partitions[partition].away.Load() }

// Release lets a partition go: see engine.Engine.Release.
func (k *Keyspace) Release(number int) {
	k.parted.Store(true)
	p := &k.partitions[number]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.letGo()
	p.away.Store(true)
	k.releases.Add(1)
	p.forgetTotal()
}

// Take lets a partition go, and returns all that it counted but its limits. It is for an engine that takes no hits of its own.
func (k *Keyspace) Take(number int) replication.State {
	p := &k.partitions[number]
	p.mu.Lock()
	p.look()
	s := replication.State{Total: p.total, Evicted: p.evictedList(), Keys: make([]replication.KeyWindow, 0, p.keys()), Past: k.pastUntil.Load()}
	p.table.Load().Each(func(en *entry) {
		s.Keys = append(s.Keys, replication.KeyWindow{Key: en.Key(), Window: en.Value.window})
	})
	p.quarantine.Each(func(key string, w *window.Window) {
		s.Quarantined = append(s.Quarantined, replication.KeyWindow{Key: key, Window: *w})
	})
	for key, set := range p.sets {
		s.Distinct = append(s.Distinct, replication.KeyDistinct{Key: key, Set: set})
	}
	p.mu.Unlock()
	k.Release(number)
	return s
}

// forgetTotal forgets the partition's share of allKeys, and of evicted keys. The caller holds mu.
func (p *partition) forgetTotal() {
	p.shared.bytes.Add(int64(p.shared.empty.Size() - p.total.Size()))
	p.total = p.shared.empty
	p.shared.bytes.Add(-p.evicted.Forget())
	p.evictedOfAll.Forget()
}

// Hold takes a partition back: a state, and what the journal has after it, in order. Questions
// about it are answered once all is there.
func (k *Keyspace) Hold(number int, s replication.State, then []replication.Followed) error {
	p := &k.partitions[number]
	p.mu.Lock()
	p.gone = nil // what was cut comes in its order of the journal
	p.mu.Unlock()
	if err := k.Install(number, s); err != nil {
		return err
	}
	for i := range then {
		if err := k.follow(number, &then[i]); err != nil {
			return err
		}
	}
	p.mu.Lock()
	k.passing.Add(-p.passing)
	p.passing = 0
	p.away.Store(false)
	p.mu.Unlock()
	k.makeSpaceEvenly()
	return nil
}

// follow applies what a journal has to a partition that is on its way.
func (k *Keyspace) follow(number int, f *replication.Followed) error {
	switch {
	case f.Clear:
		return k.Clear(number, nil, nil)
	case f.Windows != nil:
		return k.MergeWindows(number, f.Windows)
	case f.Evicted != nil:
		k.MergeEvicted(number, f.Evicted)
	case f.Distinct != nil:
		k.MergeDistinct(number, f.Distinct)
	default:
		k.Apply(number, f.Deltas, nil)
	}
	return nil
}

// letGo forgets the keys of a partition, those in quarantine too; their hits that no
// cut has yet are in its deltas. The caller holds mu.
func (p *partition) letGo() {
	clear(p.active)
	p.active, p.kept = p.active[:0], 0
	p.bytes = bytesOf(p.deltas)
	defer p.tellWaiting()
	p.shared.bytes.Add(int64(-p.quarantine.Forget()))
	if p.keys() == 0 {
		return
	}
	p.forgetAllIDs()
	old, left := p.table.Load(), NewKeyTable[counted]()
	old.Each(func(en *entry) {
		p.cool(en, Dead)
		SettleCell(en.Value.cell.Word.Swap(Dead), func(second int64, n uint64) { p.gather(replication.Delta{Key: en.Key(), At: second, N: n}) })
		p.grew(-keyBytes(en) - int64(en.Value.window.Size()))
		en.Value.window = p.shared.empty // as in remove
	})
	p.table.Store(left)
	p.grew(left.Bytes() - old.Bytes())
	p.shared.keys.Add(int64(-old.Len()))
	p.hand = 0
}

// grew notes bytes of keys, windows and tables. The caller holds mu.
func (p *partition) grew(bytes int64) {
	p.shared.bytes.Add(bytes)
	if p.away.Load() {
		p.passing += bytes
		p.shared.passing.Add(bytes)
	}
}

// AllHeld reports whether the engine has held all partitions ever since it was made: then AllKeys'
// own counter has all hits.
func (k *Keyspace) AllHeld() bool { return !k.parted.Load() }

// HoldsKey reports whether the key's partition is held. Cost: a load where none was ever released.
func (k *Keyspace) HoldsKey(key string) bool {
	return !k.parted.Load() || k.Holds(k.PartitionOf(key))
}

// gathering is what a partition's next cut has. Hits in live cells are not in
// deltas yet: active lists the entries whose cells may have some.
type gathering struct {
	active        []*entry // all whose cells are not idle; some may be listed twice
	kept          int      // how many of them have been through a cut
	deltas        []replication.Delta
	past          []replication.Delta // hits for history alone (read.go)
	pastRemoved   []replication.Delta // and those before a removal of their key
	bytes         int                 // what deltas, past and active take in a batch, at most
	reported      int                 // how many of deltas and active Engine.waiting knows of
	reportedBytes int                 // and how many bytes
	compactAt     int                 // deltas at which equal ones are added up
	pastCompactAt int                 // deltas of past at which equal ones are added up
	cuts          uint64              // so far
	gone          map[string]int      // own removals of a key that did not come back from the journal
	removals      atomic.Int64        // in deltas
	removed       map[string]uint64   // by key
	total         window.Window       // all hits that were cut or applied: allKeys' share
}

// activate notes an entry whose live cell, with the given word, is about to be filled. The caller holds mu.
func (p *partition) activate(en *entry, word uint64) {
	if p.shared.gather && word == Idle {
		p.active = append(p.active, en)
		p.bytes += waitingBytes(en.Key())
		p.tellWaiting()
	}
}

// tellWaiting keeps Engine.waiting up to date. It does so only now and then: every hit reads it, and would wait for the
// cache line if every other wrote it. What it knows is at most an eighth too little, and one entry for each that was
// kept. The caller holds mu.
func (p *partition) tellWaiting() {
	if news := p.waiting() - p.reported; news < 0 || news > p.reported/8 {
		p.tell()
	}
}

func (p *partition) tell() {
	waiting := p.waiting()
	p.shared.waiting.entries.Add(int64(waiting - p.reported))
	p.shared.waiting.bytes.Add(int64(p.bytes - p.reportedBytes))
	p.reported, p.reportedBytes = waiting, p.bytes
}

// waiting is how many entries the next cut has, without the cells that were kept.
func (p *partition) waiting() int {
	return len(p.active) - p.kept + len(p.deltas) + len(p.past) + len(p.pastRemoved) + len(p.fresh)
}

// gather notes hits that settled, or a removal. The caller holds mu.
func (p *partition) gather(d replication.Delta) {
	if !p.shared.gather {
		return
	}
	p.deltas = append(p.deltas, d)
	p.bytes += waitingBytes(d.Key)
	if d.N == 0 {
		if p.removed == nil {
			p.removed = map[string]uint64{}
		}
		p.removed[d.Key]++
		p.removals.Add(1)
	}
	if len(p.deltas) > p.compactAt {
		p.bytes -= bytesOf(p.deltas)
		p.deltas = compact(p.deltas)
		p.bytes += bytesOf(p.deltas)
		p.compactAt = max(compactFirst, 2*len(p.deltas))
	}
	p.tellWaiting()
}

// compactFirst is how many deltas are not worth adding up.
const compactFirst = 2048

// compact adds up the deltas of equal key and second. Late hits settle one by one, but a batch grows only with keys and
// seconds. It moves no delta across a removal.
func compact(deltas []replication.Delta) []replication.Delta {
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

// EachSecond calls f with the hits for allKeys of each run of deltas in one second: most batches have one or two.
// Removals, and keys that are counted apart, are passed over.
func EachSecond(deltas []replication.Delta, f func(second int64, n uint64)) {
	for len(deltas) > 0 {
		at, n, same := deltas[0].At, forAll(&deltas[0]), 1
		for same < len(deltas) && deltas[same].At == at && n+deltas[same].N >= n {
			n += forAll(&deltas[same])
			same++
		}
		if n > 0 {
			f(at, n)
		}
		deltas = deltas[same:]
	}
}

// forAll is what a delta adds to allKeys.
func forAll(d *replication.Delta) uint64 {
	if Separate(d.Key) {
		return 0
	}
	return d.N
}
