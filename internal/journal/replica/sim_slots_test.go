package replica

import (
	"bytes"
	"time"

	"github.com/weir-counter/weir/internal/journal/record"
)

// simSlot is what is in a slot: the bytes of a snapshot, and what its end says of them.
type simSlot struct {
	from  uint64
	data  []byte
	ended bool // the end can be read

	ages  simAges // what it knows of admissions
	clock simClock
}

// simSnapshot is a snapshot that was taken, and what it knows of admissions.
type simSnapshot struct {
	record.Snapshot
	ages  simAges
	clock simClock
}

// with adds to snapshots what the node knows now.
func (n *simNode) with(snaps []record.Snapshot) (list []simSnapshot) {
	for _, snap := range snaps {
		ages, clock := n.agesOf(snap.Partition)
		list = append(list, simSnapshot{snap, ages, clock})
	}
	return list
}

// snapshot is what can be read of a slot.
func (s simSlot) snapshot() (record.Snapshot, error) {
	if !s.ended {
		return record.Snapshot{}, record.ErrDamaged
	}
	return record.DecodeSnapshot(s.data)
}

func (s simSlot) sound() bool {
	_, err := s.snapshot()
	return err == nil
}

// damageSlot spoils what is in a slot: one of two, or both while the log has all.
func (c *simCluster) damageSlot() {
	p, slot := c.w.IntN(simPartitions), c.w.IntN(record.Slots)
	name, other := record.SlotName(p, slot), record.SlotName(p, 1-slot)
	at, there := c.slots.Look(name).(simSlot)
	if !there {
		return
	}
	if good, ok := c.slots.Look(other).(simSlot); !ok || !good.sound() {
		if c.log.First() > 1 || c.w.Chance(.5) {
			return
		}
		c.spoiled[p] = true
	}
	ended := c.w.Chance(.7)
	bit := c.w.IntN(8 * len(at.data))
	c.w.Logf("snapshot %s is damaged, its end too: %v", name, !ended)
	c.slots.Spoil(name, func(any) any {
		data := bytes.Clone(at.data)
		data[bit/8] ^= 1 << (bit % 8)
		at.data, at.ended = data, at.ended && ended
		return at
	})
}

// lastRounds has one node take all snapshots that it can, twice: if it holds all
// partitions, the journal is trimmed up to where the first ones begin.
func (c *simCluster) lastRounds() {
	for _, n := range c.nodes {
		n.takes = false
	}
	n := c.nodes[c.w.IntN(len(c.nodes))]
	before := n.r.audit.startOf().from // a flush that is not whole is waited for
	n.takes, n.listed = true, false
	c.w.Logf("%s takes the last snapshots", n.name)
	for range 2 {
		n.wants = c.w.Perm(simPartitions)
		for tries := 0; (n.wants != nil || n.rounds.UnderWay) && tries < 60; tries++ {
			c.w.Run(500 * time.Millisecond) // each waits for the next heartbeat
		}
		c.w.Run(500*time.Millisecond + n.flushEvery)
	}
	if n.ready && !c.shares && c.log.First() <= before {
		c.failf("after two rounds of snapshots from %[2]d on the journal begins with message %[1]d", c.log.First(), before)
	}
}

// lastStart starts a node that may have nothing but these.
func (c *simCluster) lastStart() {
	n := c.nodes[c.w.IntN(len(c.nodes))]
	if c.protected[n.name] {
		return
	}
	if c.damages {
		c.damageSlot()
	}
	n.crash()
	n.start()
	c.w.Run(2 * time.Second)
}

// checkSlots checks that the journal leads on from all snapshots.
func (c *simCluster) checkSlots() {
	for p := range simPartitions {
		for slot := range record.Slots {
			name := record.SlotName(p, slot)
			if at, there := c.slots.Look(name).(simSlot); there && at.from+1 < c.log.First() {
				c.failf("snapshot %s is from %d, and the journal begins with message %d", name, at.from, c.log.First())
			}
		}
	}
}

// loadPartition is Journal.loadSnapshots, of one partition.
func (n *simNode) loadPartition(p int) (*record.Snapshot, error) {
	best, in, err := n.newestSnapshot(p)
	if best == nil || err != nil {
		return nil, err
	}
	n.inherit(in)
	return best, n.r.LoadSnapshot(*best)
}

// newestSnapshot is the newest one that can be read, and its slot.
func (n *simNode) newestSnapshot(p int) (best *record.Snapshot, in simSlot, err error) {
	for slot := range record.Slots {
		at, err := n.c.slots.Get(n.name, record.SlotName(p, slot))
		if err != nil {
			return nil, in, err
		}
		if at.Revision == 0 {
			continue
		}
		snap, err := at.Value.(simSlot).snapshot()
		if err != nil {
			n.c.w.Logf("%s passes over snapshot %s", n.name, record.SlotName(p, slot))
			continue
		}
		if best == nil || snap.From > best.From {
			best, in = &snap, at.Value.(simSlot)
		}
	}
	return best, in, nil
}

// due are the partitions that a round of snapshots has next.
func (n *simNode) due(haste bool) map[int]bool {
	n.startRound()
	return n.rounds.Due(haste)
}

// startRound is Checkpointer.Run between batches: a round starts when its rules say so, or the
// world does, once what is in the slots is known.
func (n *simNode) startRound() {
	if !n.takes || n.rounds.UnderWay {
		return
	}
	if n.wants == nil && (n.c.max == 0 || !n.rounds.StartNow(n.c.now(), n.space, n.c.max/64)) {
		return
	}
	if !n.listed && !n.list() {
		return
	}
	todo := n.wants
	if todo == nil {
		todo = n.c.w.Perm(simPartitions)
	}
	n.wants = nil
	n.rounds.Start(todo)
	n.space.RoundBegan()
}

// list is Checkpointer.listStored: what the ends say, whatever is before them.
func (n *simNode) list() bool {
	have := make([][record.Slots]Slot, simPartitions)
	for p := range have {
		for slot := range record.Slots {
			at, err := n.c.slots.Get(n.name, record.SlotName(p, slot))
			if err != nil {
				return false
			}
			if s, ok := at.Value.(simSlot); ok && s.ended {
				have[p][slot] = Slot{s.from + 1, at.Revision}
			}
		}
	}
	n.rounds.Have, n.listed = have, true
	return true
}

// offer is Checkpointer.Offer, and what Run does with it: each snapshot is stored once its own
// hits came back, and the batch ends with the last.
func (n *simNode) offer(done Flushed, snaps []simSnapshot) {
	n.snaps = nil
	if len(done.Due) == 0 {
		return
	}
	n.rounds.Taken(done.Due, done.Later)
	n.batch = len(snaps)
	if n.batch == 0 {
		n.endOfBatch()
	}
	for _, snap := range snaps {
		n.store(n.run, snap)
	}
}

// stored ends one snapshot of a batch.
func (n *simNode) stored() {
	if n.batch--; n.batch == 0 {
		n.endOfBatch()
	}
}

// store is Checkpointer.settleSnapshot.
func (n *simNode) store(run int, snap simSnapshot) {
	over := false
	n.c.w.Every(10*time.Millisecond, func() bool {
		if n.run != run || over {
			return false
		}
		settled, sound := n.r.Settle(snap.Snapshot)
		switch over = settled; {
		case settled && sound:
			n.storeSettled(run, snap)
		case settled:
			n.c.w.Logf("%s drops its snapshot of partition %d: a removal came before its own hits", n.name, snap.Partition)
			n.rounds.Again(snap.Partition)
			n.stored()
		}
		return !settled
	})
}

// storeSettled is Checkpointer.storeSnapshot. An answer that does not come in time is a failure.
func (n *simNode) storeSettled(run int, snap simSnapshot) {
	slot, before, ok := n.rounds.Put(snap.Partition, snap.From, len(snap.State))
	if !ok {
		n.stored()
		return
	}
	name := record.SlotName(snap.Partition, slot)
	over := false
	answered := func(revision uint64, why string) {
		if over || n.run != run {
			return
		}
		if over = true; revision == 0 {
			n.c.w.Logf("%s could not store snapshot %s: %s", n.name, name, why)
			n.listed = false
			n.rounds.Unanswered()
		} else {
			n.c.w.Logf("%s stored snapshot %s from %d", n.name, name, snap.From)
			n.rounds.Answered(snap.Partition, slot, snap.From, revision)
		}
		n.stored()
	}
	if before == 0 { // nothing, or what can't be read
		at, err := n.c.slots.Get(n.name, name)
		if err != nil {
			answered(0, err.Error())
			return
		}
		if is, ok := at.Value.(simSlot); ok && is.ended && is.from > snap.From { // errNewerThere
			answered(0, "a newer one is there")
			return
		}
		before = at.Revision
	}
	if n.c.slotsFull() {
		answered(0, "there is no space")
		return
	}
	n.c.w.After(2*simSlowest, func() { answered(0, "no answer") })
	n.c.slots.Put(n.name, name, before, simSlot{snap.From, snap.Encode(), true, snap.ages, snap.clock}, func(revision uint64) {
		answered(revision, "written by another")
	})
}

// endOfBatch is that of Checkpointer.
func (n *simNode) endOfBatch() {
	n.r.Trimmed(n.c.log.First() + waitMost) // as if nothing that is asked for again were late
	needed, ended := n.rounds.Stored(n.c.now())
	if !ended || !n.takes {
		return
	}
	if n.c.shares { // others take snapshots too
		if needed = 0; n.list() {
			needed = OldestNeeded(n.rounds.Have)
		}
	}
	if needed > 1 {
		err := n.c.log.Trim(n.name, needed-1)
		n.c.w.Logf("%s trims up to %d: %v", n.name, needed-1, err)
		n.c.checkSlots()
	}
}
