package replica

import (
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/journal/record"
)

// release lets a partition go.
func (n *simNode) release() {
	p := n.c.w.IntN(simPartitions)
	if n.e.Keyspace().Holds(p) {
		n.c.w.Logf("%s releases partition %d", n.name, p)
		n.r.Release(p)
	}
}

// take takes some partitions that are not held, by the code that package holders runs: here it stops wherever it waits in
// production, and goes on some time later.
func (n *simNode) take(partitions []int) {
	partitions = slices.DeleteFunc(partitions, n.takenOtherwise)
	if len(partitions) == 0 {
		return
	}
	t := &simTaking{n, n.run, partitions, make([]simSlot, simPartitions), nil, 0}
	next, stop := iter.Pull(func(wait func(time.Duration) bool) {
		t.wait = wait
		_, err := n.r.TakeOver(partitions, t)
		t.ended(err)
	})
	n.c.takes = append(n.c.takes, stop)
	var goOn func()
	goOn = func() {
		if n.run != t.run {
			stop() // the process has ended
		} else if pause, ok := next(); ok {
			n.c.w.After(pause, goOn)
		}
	}
	goOn()
}

// takenOtherwise tells whether a partition is held, or being taken.
func (n *simNode) takenOtherwise(p int) bool {
	return n.e.Keyspace().Holds(p) || n.r.holding.arrivals[p] != nil
}

// simTaking is the world around a take-over, as holders.taking is the real one.
type simTaking struct {
	*simNode
	run        int
	partitions []int
	in         []simSlot // by partition: where its snapshot was
	wait       func(time.Duration) bool
	pauses     int
}

var (
	errSimEnded = errors.New("the process has ended")
	errSimTaken = errors.New("another take has a partition")
	errSimLong  = errors.New("it takes too long")
)

// pass lets time go by.
func (t *simTaking) pass(most time.Duration) error {
	if !t.wait(t.c.w.Between(time.Millisecond, most)) {
		return errSimEnded
	}
	return nil
}

func (t *simTaking) Now() time.Time { return t.c.now() }

func (t *simTaking) Snapshots(partitions []int, each func(record.Snapshot)) error {
	for _, p := range partitions {
		snap, _, err := t.newestSnapshot(p)
		if err != nil {
			return err
		}
		if snap != nil {
			each(*snap)
		}
	}
	return t.Pause()
}

func (t *simTaking) Pause() error {
	if err := t.pass(500 * time.Millisecond); err != nil {
		return err
	}
	if slices.ContainsFunc(t.partitions, t.takenOtherwise) {
		return errSimTaken
	}
	if t.pauses++; t.pauses > 10 {
		return errSimLong
	}
	return nil
}

func (t *simTaking) First() (uint64, error) {
	first, _, err := t.c.log.Bounds(t.name)
	return first, err
}

func (t *simTaking) Read(from, to uint64, each func(sequence uint64, data []byte) error) error {
	t.c.w.Logf("%s takes partitions %d, from message %d to %d", t.name, t.partitions, from, to)
	for sequence := from; sequence <= to; sequence++ {
		if t.c.w.Chance(.02) {
			if err := t.pass(100 * time.Millisecond); err != nil {
				return err
			}
		}
		data, err := t.c.log.Get(t.name, sequence)
		switch {
		case errors.Is(err, ErrNoMessage):
			continue
		case err != nil:
			return err
		}
		if err := each(sequence, data); err != nil {
			return err
		}
	}
	return t.pass(500 * time.Millisecond)
}

func (t *simTaking) Hurry(partitions []int) {
	n := t.simNode
	if !n.c.healed && n.c.w.Chance(.4) { // its own hits from before are on their way still
		n.takes, n.listed, n.wants = true, false, slices.Clone(partitions)
		n.stall()
	}
}

// Await waits for longer than any flush takes once all is healed, and gives up at times before.
func (t *simTaking) Await(held <-chan struct{}) error {
	for range 1000 {
		select {
		case <-held:
			return nil
		default:
		}
		if err := t.pass(200 * time.Millisecond); err != nil {
			return err
		}
		if !t.c.healed && t.c.w.Chance(.02) {
			return errSimLong
		}
	}
	return errSimLong
}

func (t *simTaking) ended(err error) {
	n := t.simNode
	if err == nil || errors.Is(err, errSimEnded) {
		return
	}
	n.c.w.Logf("%s did not take partitions %d: %v", n.name, t.partitions, err)
	if errors.Is(err, ErrCannotCatchUp) && !errors.Is(err, errTrimmed) && n.c.holes == simSound && len(n.c.spoiled) == 0 {
		n.c.failf("%s: %v", n.name, err)
	}
}

// takeAll takes what is not held, after all is healed.
func (n *simNode) takeAll(run int) bool {
	if n.run != run || n.c.quiet {
		return false
	}
	n.take(n.c.w.Perm(simPartitions))
	return true
}

// checkTotal checks the count of all hits of the partitions that are held.
func (n *simNode) checkTotal(truth simTruth, now int64, above string) {
	ground := ""
	switch {
	case n.c.holes == simBeyond && n.c.model.lost():
		ground = "flushes are lost"
	case n.c.blind:
		ground = "a node said that something is missing"
	}
	over, under := n.c.tally.does("totals from above", above), n.c.tally.does("totals from below", ground)
	held := n.e.HeldPartitions()
	for _, w := range []int64{60, 1800} {
		var want uint64
		for key := range truth.all {
			if held.Has(n.e.Keyspace().PartitionOf(key)) {
				for at, hits := range truth.all[key] {
					if at > now-w && at <= now {
						want += hits
					}
				}
			}
		}
		got, err := n.e.CountIn(held, time.Unix(now, 0), engine.AllKeys, time.Duration(w)*time.Second)
		if err != nil || over && got.Lower > want || under && got.Upper < want {
			n.c.failf("%s counts %+v of all hits of %d partitions in %d s, want %d, %v", n.name, got, held.Len(), w, want, err)
		}
	}
}

// partitionOf is the same on all nodes.
func (n *simNode) partitionOf(key string) int { return n.e.Keyspace().PartitionOf(key) }

// answers tells whether a node can answer for a key.
func (n *simNode) answers(key string) bool {
	if key == engine.AllKeys {
		return n.e.HeldPartitions().Len() == simPartitions
	}
	return n.e.Keyspace().Holds(n.e.Keyspace().PartitionOf(key))
}
