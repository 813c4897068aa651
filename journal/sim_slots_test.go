package journal

import (
	"bytes"
	"slices"
	"time"
)

// simSlot is what is in a slot: the bytes of a snapshot, and what its end says of them.
type simSlot struct {
	from  uint64
	data  []byte
	ended bool // the end can be read
}

// snapshot is what can be read of a slot.
func (s simSlot) snapshot() (snapshot, error) {
	if !s.ended {
		return snapshot{}, errDamaged
	}
	return decodeSnapshot(s.data)
}

func (s simSlot) sound() bool {
	_, err := s.snapshot()
	return err == nil
}

// damageSlot spoils what is in a slot: one of two, or both while the log has all.
func (c *simCluster) damageSlot() {
	p, slot := c.w.IntN(simPartitions), c.w.IntN(slots)
	name, other := slotName(p, slot), slotName(p, 1-slot)
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
		return simSlot{at.from, data, at.ended && ended}
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
		n.round = c.w.Perm(simPartitions)
		for tries := 0; len(n.round)+len(n.snaps)+n.settling > 0 && tries < 60; tries++ {
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
		for slot := range slots {
			name := slotName(p, slot)
			if at, there := c.slots.Look(name).(simSlot); there && at.from+1 < c.log.First() {
				c.failf("snapshot %s is from %d, and the journal begins with message %d", name, at.from, c.log.First())
			}
		}
	}
}

// loadPartition is Journal.loadSnapshots, of one partition.
func (n *simNode) loadPartition(p int) (*snapshot, error) {
	best, err := n.newestSnapshot(p)
	if best == nil || err != nil {
		return nil, err
	}
	return best, n.r.loadSnapshot(*best)
}

// newestSnapshot is the newest one that can be read.
func (n *simNode) newestSnapshot(p int) (best *snapshot, err error) {
	for slot := range slots {
		at, err := n.c.slots.Get(n.name, slotName(p, slot))
		if err != nil {
			return nil, err
		}
		if at.Revision == 0 {
			continue
		}
		snap, err := at.Value.(simSlot).snapshot()
		if err != nil {
			n.c.w.Logf("%s passes over snapshot %s", n.name, slotName(p, slot))
			continue
		}
		if best == nil || snap.from > best.from {
			best = &snap
		}
	}
	return best, nil
}

// due are the partitions that a round of snapshots has next.
func (n *simNode) due() map[int]bool {
	n.startRound()
	if !n.takes || len(n.snaps)+n.settling > 0 || len(n.round) == 0 {
		return nil
	}
	if !n.listed && !n.list() {
		return nil
	}
	most := 1 + n.c.w.IntN(len(n.round))
	states := map[int]bool{}
	for _, p := range n.round[:most] {
		states[p] = true
	}
	n.round = n.round[most:]
	return states
}

// list is Journal.listStored: what the ends say, whatever is before them.
func (n *simNode) list() bool {
	n.have = make([][slots]kept, simPartitions)
	for p := range n.have {
		for slot := range slots {
			at, err := n.c.slots.Get(n.name, slotName(p, slot))
			if err != nil {
				return false
			}
			if s, ok := at.Value.(simSlot); ok && s.ended {
				n.have[p][slot] = kept{s.from + 1, at.Revision}
			}
		}
	}
	n.listed = true
	return true
}

// store is Journal.awaitSettled, and then storeSnapshot, and endOfBatch after the last of
// a round.
func (n *simNode) store(snaps []snapshot) {
	n.snaps = nil
	run := n.run
	for _, snap := range snaps {
		n.settling++
		settled := false
		n.c.w.Every(10*time.Millisecond, func() bool {
			if n.run != run || settled {
				return false
			}
			var sound bool
			if settled, sound = n.r.settle(snap); settled {
				n.settling--
			}
			switch {
			case settled && sound:
				n.storeSettled(run, snap)
			case settled:
				n.c.w.Logf("%s drops its snapshot of partition %d: a removal came before its own hits", n.name, snap.partition)
				if !slices.Contains(n.round, snap.partition) {
					n.round = append(n.round, snap.partition)
				}
			}
			return !settled
		})
	}
}

func (n *simNode) storeSettled(run int, snap snapshot) {
	slot, ok := slotFor(n.have[snap.partition], snap.from)
	if !ok {
		return
	}
	name := slotName(snap.partition, slot)
	known := n.have[snap.partition][slot].revision
	if known == 0 { // nothing, or what can't be read
		at, err := n.c.slots.Get(n.name, name)
		if err != nil {
			n.listed = false
			return
		}
		if is, ok := at.Value.(simSlot); ok && is.ended && is.from > snap.from { // errNewerThere
			n.listed = false
			return
		}
		known = at.Revision
	}
	if n.c.slotsFull() {
		n.c.w.Logf("%s has no room for snapshot %s", n.name, name)
		n.listed, n.space.lacks = false, true
		return
	}
	n.have[snap.partition][slot].upTo = 0
	answered := n.awaitPut(run)
	n.c.slots.Put(n.name, name, known, simSlot{snap.from, snap.encode(), true}, func(revision uint64) {
		if n.run != run {
			return
		}
		answered()
		if revision == 0 {
			n.c.w.Logf("%s finds slot %s written by another", n.name, name)
			n.listed = false
			return
		}
		n.have[snap.partition][slot] = kept{snap.from + 1, revision}
		n.c.w.Logf("%s stored snapshot %s from %d", n.name, name, snap.from)
		n.trim()
	})
}

func (n *simNode) trim() {
	if needed := oldestNeeded(n.have); n.takes && n.listed && len(n.round) == 0 && needed > 1 {
		err := n.c.log.Trim(n.name, needed-1)
		n.c.w.Logf("%s trims up to %d: %v", n.name, needed-1, err)
		n.c.checkSlots()
	}
}
