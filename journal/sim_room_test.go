package journal

import (
	"errors"
	"testing"
	"time"

	"github.com/weir-counter/weir"
)

// simSpace is what a node of a simulation whose journal is bounded knows of it.
type simSpace struct {
	kept, grown int64
	looked      time.Duration
	pause       time.Duration // until then no round starts
	lacks       bool          // a snapshot of the round could not be stored
	putting     int           // snapshots that are on their way to their slots
}

func (s *simSpace) wrote(bytes int) {
	s.kept += int64(bytes)
	s.grown += int64(bytes)
}

func (c *simCluster) room() room { return room{c.max, len(c.nodes), true} }

// bound gives the journal a size bound that a simulation comes to: the rest of it is for
// snapshots.
func (c *simCluster) bound() {
	if c.shares { // what nobody holds is in no snapshot, and nothing is trimmed
		return
	}
	c.max = 64 << 10
	if c.crowded { // keys are long
		c.max = 256 << 10
	}
	c.log.MaxBytes = int(c.max / roomParts * 12)
}

// slotsFull tells whether there is no room for a snapshot, as while something else fills
// the disk.
func (c *simCluster) slotsFull() bool {
	return c.max > 0 && !c.healed && c.w.Now()/(4*time.Second)%3 == 1
}

// lookForRoom is Journal.lookForRoom, and what the next flush is like.
func (n *simNode) lookForRoom() (as flushing) {
	if n.c.max == 0 {
		return as
	}
	if now := n.c.w.Now(); now-n.space.looked >= lookAgain {
		if kept, err := n.c.log.Kept(n.name); err == nil {
			n.space.grown += max(int64(kept)-n.space.kept, 0)
			n.space.kept, n.space.looked = int64(kept), now
		}
	}
	return n.c.room().flushing(n.space.kept, n.leaving)
}

// boundWaiting is Journal.boundWaiting.
func (n *simNode) boundWaiting(underWay int) {
	if n.c.max > 0 {
		n.e.Replication().BoundWaiting(n.c.room().waiting(n.space.kept, int64(underWay)), "full")
		if n.c.room().admits(n.space.kept, int64(underWay)) {
			n.e.Replication().RefuseTakes("")
		} else {
			n.e.Replication().RefuseTakes("full")
		}
	}
}

// refused tells whether a node took nothing for want of room.
func (n *simNode) refused(err error) bool {
	var e *weir.Error
	return n.c.max > 0 && errors.As(err, &e) && e.Code == weir.CodeOverloaded
}

// awaitPut waits for the answer of a slot, for longer than one may take.
func (n *simNode) awaitPut(run int) (answered func()) {
	if n.c.max == 0 {
		return func() {}
	}
	n.space.putting++
	over := false
	answered = func() {
		if !over && n.run == run {
			over = true
			n.space.putting--
		}
	}
	n.c.w.After(2*simSlowest, func() {
		if !over && n.run == run {
			answered()
			n.listed, n.space.lacks = false, true
		}
	})
	return answered
}

// startRound starts a round of snapshots when the journal's own rules say so.
func (n *simNode) startRound() {
	if n.c.max == 0 || !n.takes || len(n.round)+len(n.snaps)+n.settling+n.space.putting > 0 || n.c.w.Now() < n.space.pause {
		return
	}
	if !n.listed && !n.list() {
		return
	}
	r := rounds{have: n.have, lacks: n.space.lacks}
	if r.startNow(n.space.grown, n.c.room().every(n.c.max/64, 0, n.space.kept), n.c.room().haste(n.space.kept), n.c.room().full(n.space.kept)) {
		n.round, n.space.grown, n.space.lacks = n.c.w.Perm(simPartitions), 0, false
		n.space.pause = n.c.w.Now() + roundAgain
	}
}

// checkRoom checks that the journal has emptied itself, some time after the last fault.
func (c *simCluster) checkRoom() {
	if c.max == 0 || len(c.spoiled) > 0 {
		return
	}
	for _, n := range c.nodes {
		kept, err := c.log.Kept(n.name)
		switch {
		case !n.ready || err != nil:
			c.failf("%s does not run: %v", n.name, err)
		case c.room().full(int64(kept)):
			c.failf("%s: the journal has %d of %d bytes, and does not empty itself", n.name, kept, c.room().fullFrom())
		case n.sending != nil && c.now().Sub(n.began) > time.Second:
			c.failf("%s has a flush since %v", n.name, n.began)
		}
		n.boundWaiting(0)
		n.hit(c.key())
	}
	c.w.Run(3 * time.Second)
}

// TestSimulationOfFullJournal is TestSimulation with a journal that has a size bound: it
// runs full, there is no room for snapshots for a while, nodes fail, and some seconds after
// the last fault it is trimmed, and every node flushes again.
func TestSimulationOfFullJournal(t *testing.T) {
	t.Parallel()
	seeds := max(1, *simSeeds/4)
	if err := inParallel(seeds, func(i int) error {
		if !t.Failed() {
			simulateBounded(t, *simFirst+uint64(i))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func simulateBounded(t *testing.T, seed uint64) bool {
	return simulateOf(t, seed, "TestSimulationOfFullJournal$", (*simCluster).bound)
}
