package keyspace

import (
	"github.com/weir-counter/weir/internal/keytable"
	"github.com/weir-counter/weir/internal/live"
	"github.com/weir-counter/weir/internal/replication"
)

// An engine may hold some of its partitions only, while others are held by the
// engines of other nodes. Of a partition that it does not hold it takes hits all
// the same, for the journal, and forgets them with the cut that has them; questions
// about it are refused, for whoever holds it to answer.

// Holds tells whether a partition is held. At first all are.
func (k *Keyspace) Holds(partition int) bool { return !k.partitions[partition].away.Load() }

// Release lets a partition go: see replication.Engine.Release. limits does the same for its
// limits, before anybody else may change the partition.
func (k *Keyspace) Release(number int, limits func()) {
	k.parted.Store(true)
	p := &k.partitions[number]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.letGo()
	p.away.Store(true)
	k.releases.Add(1)
	p.forgetTotal()
	limits()
}

// forgetTotal forgets the partition's share of allKeys, and of evicted keys. The caller
// holds mu.
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
	k.makeRoomEvenly()
	return nil
}

// follow applies what a journal has to a partition that is on its way.
func (k *Keyspace) follow(number int, f *replication.Followed) error {
	switch {
	case f.Clear:
		k.Clear(number, nil)
	case f.Windows != nil:
		return k.MergeWindows(number, f.Windows)
	case f.Evicted != nil:
		k.MergeEvicted(number, f.Evicted)
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
	old, left := p.table.Load(), keytable.NewTable[counted]()
	old.Each(func(en *entry) {
		p.cool(en, live.Dead)
		live.Settle(en.Value.cell.Word.Swap(live.Dead), func(second int64, n uint64) { p.gather(replication.Delta{Key: en.Key(), At: second, N: n}) })
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

// AllHeld tells whether the engine has held all partitions ever since it was made: then AllKeys'
// own counter has all hits.
func (k *Keyspace) AllHeld() bool { return !k.parted.Load() }

// HoldsKey tells whether the key's partition is held. Cost: a load where none was ever released.
func (k *Keyspace) HoldsKey(key string) bool {
	return !k.parted.Load() || k.Holds(k.PartitionOf(key))
}
