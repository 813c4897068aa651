package replica

import (
	"errors"
	"slices"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/partial"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/journal/record"
)

// release lets a partition go.
func (n *simNode) release() {
	p := n.c.w.IntN(simPartitions)
	if replication.Of(n.e).Holds(p) {
		n.c.w.Logf("%s releases partition %d", n.name, p)
		n.r.Release(p)
	}
}

// take takes some partitions that are not held, as Journal.take does: the snapshots are
// read at one time, the journal at another, and the next cut is a third.
func (n *simNode) take(partitions []int) {
	run := n.run
	partitions = slices.DeleteFunc(partitions, func(p int) bool { return replication.Of(n.e).Holds(p) || n.r.holding.arrivals[p] != nil })
	if len(partitions) == 0 {
		return
	}
	snaps, in := make([]*record.Snapshot, simPartitions), make([]simSlot, simPartitions)
	for _, p := range partitions {
		var err error
		if snaps[p], in[p], err = n.newestSnapshot(p); err != nil {
			return
		}
	}
	tries := 0
	n.c.w.Every(n.c.w.Between(time.Millisecond, 500*time.Millisecond), func() bool {
		if n.run != run || n.takeOn(run, partitions, snaps, in) {
			return false
		}
		n.c.w.Logf("%s can't take partitions %d yet", n.name, partitions)
		tries++
		return tries < 10
	})
}

func (n *simNode) takeOn(run int, partitions []int, snaps []*record.Snapshot, in []simSlot) (ok bool) {
	for _, p := range partitions {
		if replication.Of(n.e).Holds(p) || n.r.holding.arrivals[p] != nil {
			return true // by another take
		}
	}
	t, ok := n.r.BeginHandOff(partitions, snaps)
	if !ok {
		return false
	}
	first, _, err := n.c.log.Bounds(n.name)
	var start uint64
	if err == nil {
		start, err = t.Start(first)
	}
	if err != nil {
		n.c.w.Logf("%s: %v", n.name, err)
		n.r.AbandonHandOff(t)
		return false
	}
	n.c.w.Logf("%s takes partitions %d, from message %d to %d", n.name, partitions, start, t.UpTo)
	n.c.w.After(n.c.w.Between(time.Millisecond, 500*time.Millisecond), func() {
		if n.run != run {
			return
		}
		_, err := t.scratch.FollowTo(n.c.now(), t.UpTo, n)
		if err == nil {
			err = n.r.CommitHandOff(t)
		}
		if err != nil {
			n.c.w.Logf("%s: %v", n.name, err)
			n.r.AbandonHandOff(t)
			if errors.Is(err, ErrCannotCatchUp) && n.c.holes == simSound && len(n.c.spoiled) == 0 {
				n.c.failf("%s: %v", n.name, err)
			}
			return
		}
		for _, p := range partitions {
			n.arriving[p] = in[p]
		}
		if !n.c.healed && n.c.w.Chance(.4) { // its own hits from before are on their way still
			n.takes, n.listed, n.wants = true, false, slices.Clone(partitions)
			n.stall()
		}
	})
	return true
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
func (n *simNode) checkTotal(truth simTruth, now int64) {
	ground := ""
	switch {
	case n.c.holes == simBeyond && n.c.model.lost():
		ground = "flushes are lost"
	case n.c.blind:
		ground = "a node said that something is missing"
	}
	over, under := n.c.tally.does("totals from above", ""), n.c.tally.does("totals from below", ground)
	held := replication.Of(n.e).HeldPartitions()
	for _, w := range []int64{60, 1800} {
		var want uint64
		for key := range truth.all {
			if held.Has(replication.Of(n.e).PartitionOf(key)) {
				for at, hits := range truth.all[key] {
					if at > now-w && at <= now {
						want += hits
					}
				}
			}
		}
		got, err := partial.Of(n.e).CountIn(held, time.Unix(now, 0), weir.AllKeys, time.Duration(w)*time.Second)
		if err != nil || over && got.Lower > want || under && got.Upper < want {
			n.c.failf("%s counts %+v of all hits of %d partitions in %d s, want %d, %v", n.name, got, held.Len(), w, want, err)
		}
	}
}

// partitionOf is the same on all nodes.
func (n *simNode) partitionOf(key string) int { return replication.Of(n.e).PartitionOf(key) }

// answers tells whether a node can answer for a key.
func (n *simNode) answers(key string) bool {
	if key == weir.AllKeys {
		return replication.Of(n.e).HeldPartitions().Len() == simPartitions
	}
	return replication.Of(n.e).Holds(replication.Of(n.e).PartitionOf(key))
}
