package replica

import (
	"errors"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/engine"
)

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
	c.log.MaxBytes = int(c.max / spaceParts * 12)
}

// slotsFull tells whether there is no space for a snapshot, as while something else fills
// the disk.
func (c *simCluster) slotsFull() bool {
	return c.max > 0 && !c.healed && c.w.Now()/(4*time.Second)%3 == 1
}

// lookForSpace is Journal.lookForSpace.
func (n *simNode) lookForSpace() {
	if !n.space.LookDue(n.c.now()) {
		return
	}
	if retained, err := n.c.log.Retained(n.name); err == nil {
		n.space.Found(uint64(retained))
	}
}

// refused tells whether a node took nothing for want of space.
func (n *simNode) refused(err error) bool {
	var e *engine.Error
	return n.c.max > 0 && errors.As(err, &e) && e.Code == api.CodeOverloaded
}

// checkSpace checks that the journal has emptied itself, some time after the last fault.
func (c *simCluster) checkSpace() {
	if c.max == 0 || len(c.spoiled) > 0 {
		return
	}
	for _, n := range c.nodes {
		retained, err := c.log.Retained(n.name)
		n.space.Found(uint64(retained))
		switch {
		case !n.ready || err != nil:
			c.failf("%s does not run: %v", n.name, err)
		case n.space.Full():
			c.failf("%s: the journal has %d of %d bytes, and does not empty itself", n.name, retained, n.space.FullFrom())
		case n.sending != nil && c.now().Sub(n.f.Began()) > time.Second:
			c.failf("%s has a flush since %v", n.name, n.f.Began())
		}
		n.space.Bound(n.e, 0)
		n.hit(c.key())
	}
	c.w.Run(3 * time.Second)
}

// TestSimulationOfFullJournal is TestSimulation with a journal that has a size bound: it
// runs full, there is no space for snapshots for a while, nodes fail, and some seconds after
// the last fault it is trimmed, and every node flushes again.
func TestSimulationOfFullJournal(t *testing.T) {
	t.Parallel()
	seeds, all := max(1, *simSeeds/4), newSimTally()
	if err := concurrency.Do(seeds, func(i int) error {
		if !t.Failed() {
			simulateBounded(t, *simFirst+uint64(i), all)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	all.report(t)
}

// Its seeds that have found a fault, of the code or of what it is held against, stay.
func TestSimulationOfFullJournalSeeds(t *testing.T) {
	for _, seed := range []uint64{12, 377, 457, 1900, 3515, 2167, 4100, 5011, 7775, 20737, 41409} {
		simulateBounded(t, seed, newSimTally())
	}
}

func simulateBounded(t *testing.T, seed uint64, all *simTally) bool {
	return simulateOf(t, seed, "TestSimulationOfFullJournal$", all, (*simCluster).bound)
}
