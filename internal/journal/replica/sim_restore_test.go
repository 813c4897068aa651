package replica

import (
	"math"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/window"
)

// simBackup is one that is restored into the running nodes, as Journal.RestoreInto writes it.
type simBackup struct {
	ops      []simOp
	replaces bool
	flushes  []simHanded

	by   *simNode // that restores it
	run  int      // of by
	next int      // flush
}

// simHanded is a flush of a backup.
type simHanded struct {
	flush *simFlush
	data  []byte
}

func (b *simBackup) done() bool { return b.next == len(b.flushes) }

// underWay tells whether its node still restores it.
func (b *simBackup) underWay() bool { return !b.done() && b.by.run == b.run && b.by.ready }

// restore has a node restore a backup: a new one, or the one whose node crashed in the
// middle. One node at a time does.
func (c *simCluster) restore() {
	n, b := c.ready(), c.backup
	if n == nil || b != nil && b.underWay() {
		return
	}
	switch {
	case b == nil || b.done():
		if c.healed {
			return
		}
		var ops []simOp
		for range 1 + c.w.IntN(40) {
			ops = append(ops, simOp{kind: simHit, key: c.key(), at: c.now().Unix() - c.w.Int64N(900), n: 1 + c.w.Uint64N(3), wall: math.MaxInt64, right: math.MaxInt64})
		}
		// What a replacement takes depends on what is lost; and clocks stand where hits were
		// that are gone, so that beyond the retention nothing is exact.
		b = n.backup(ops, c.holes == simSound && !c.wild && c.w.Chance(.4))
	case b.replaces: // starts over
		b = n.backup(b.ops, true)
	}
	if taker := c.ready(); b.replaces && !c.healed && taker != nil && c.w.Chance(.6) { // its states are of before, and what they are ahead comes back after
		taker.takes, taker.listed, taker.wants = true, false, c.w.Perm(simPartitions)
		c.w.After(c.w.Between(0, 2*taker.flushEvery), taker.stall)
	}
	c.backup, b.by, b.run, b.next = b, n, n.run, 0
	c.w.Logf("%s restores a backup of %d hits in %d flushes, in place of all: %v", n.name, len(b.ops), len(b.flushes), b.replaces)
	n.handOver(b, n.run)
}

// backup makes its flushes, of an origin of its own: the clears of all partitions first,
// if it replaces what is there, and then the partitions in order, some in a flush.
func (n *simNode) backup(ops []simOp, replaces bool) *simBackup {
	id := n.c.w.Uint64() >> 1
	b := &simBackup{ops: ops, replaces: replaces}
	e := record.NewEncoder(record.Incarnation{Origin: id, Epoch: 1}, simPartitions)
	e.Restored, e.Node = true, record.BackupName(id)
	var list []simOp
	flush := func() {
		f := n.c.model.cut(e.Incarnation, e.Flush, nil, list, nil)
		parts := e.End(nil)
		if len(parts) != 1 {
			n.c.failf("a flush of a backup has %d parts", len(parts))
		}
		n.c.model.parts[&parts[0][0]] = simPart{f.simFlushID, 0, true}
		b.flushes = append(b.flushes, simHanded{f, parts[0]})
		list = nil
		e.Begin(n.now())
	}
	e.Begin(n.now())
	if replaces {
		e.Node = record.ReplacingBackup
		for p := range simPartitions {
			e.AddRestored(p, record.KindClear, []byte{1}, 1)
			list = append(list, simOp{kind: simClear, at: int64(p), wall: math.MaxInt64, right: math.MaxInt64})
		}
		flush()
	}
	for p := range simPartitions {
		list = append(list, n.addRestored(e, p, ops)...)
		if n.c.w.Chance(.5) {
			flush()
		}
	}
	e.Leaving = true
	flush()
	return b
}

// addRestored adds what a backup has of a partition: windows of keys and of all, and hits
// of keys that were evicted long ago. It returns the hits that count.
func (n *simNode) addRestored(e *record.Encoder, partition int, ops []simOp) (list []simOp) {
	var keys []string
	windows := map[string]*window.Window{"": {}}
	for _, op := range ops {
		if n.e.Keyspace().PartitionOf(op.key) != partition {
			continue
		}
		list = append(list, op)
		if windows[op.key] == nil {
			windows[op.key] = &window.Window{}
			keys = append(keys, op.key)
		}
		windows[op.key].Settle(op.at, op.n)
		windows[""].Settle(op.at, op.n)
	}
	if len(list) == 0 {
		return nil
	}
	var entries []byte
	for _, key := range append(keys, "") {
		entries = record.AppendWindowEntry(entries, key, windows[key])
	}
	e.AddRestored(partition, record.KindWindows, entries, uint64(len(keys)+1))
	if n.c.w.Chance(.3) {
		old := replication.Evicted{Place: n.c.w.IntN(replication.EvictedOfAll), Hits: 1 + n.c.w.Uint64N(9), Newest: simBegin.Unix() - 1000}
		e.AddRestored(partition, record.KindEvicted, record.AppendEvictedEntry(nil, old), 1)
	}
	return list
}

// handOver is Journal.handOver and takeOver of the next flush, and of those after it: between
// own flushes, where the journal has space, until it is acknowledged.
func (n *simNode) handOver(b *simBackup, run int) {
	if n.run != run || b.done() {
		return
	}
	later := func() { n.c.w.After(10*time.Millisecond, func() { n.handOver(b, run) }) }
	data, number := b.flushes[b.next].data, b.next
	if n.c.max > 0 {
		n.lookForSpace()
		if !n.space.Takes(int64(len(data))) {
			later()
			return
		}
	}
	if n.sending != nil || n.handing {
		later()
		return
	}
	n.handing = true
	n.f.BeginForeign(n.c.now(), [][]byte{data})
	again := func() bool { return n.run == run && b.next == number }
	publish := func() {
		n.c.log.Publish(n.name, data, func(sequence uint64) {
			if again() {
				n.f.Acknowledged(sequence)
				n.f.End()
				n.handing = false
				b.flushes[number].flush.acked = true
				b.next++
				n.c.w.After(n.c.w.Between(time.Millisecond, 300*time.Millisecond), func() { n.handOver(b, run) })
			}
		})
	}
	publish()
	n.c.w.Every(simAckTime, func() bool {
		if again() {
			publish()
		}
		return again()
	})
}
