package journal

import (
	"errors"
	"slices"
	"time"

	"github.com/weir-counter/weir"
)

// release lets a partition go.
func (n *simNode) release() {
	p := n.c.w.IntN(simPartitions)
	if n.e.Replication().Holds(p) {
		n.c.w.Logf("%s releases partition %d", n.name, p)
		n.r.release(p)
	}
}

// take takes some partitions that are not held, as Journal.take does: the snapshots are
// read at one time, the journal at another, and the next cut is a third.
func (n *simNode) take(partitions []int) {
	run := n.run
	partitions = slices.DeleteFunc(partitions, func(p int) bool { return n.e.Replication().Holds(p) || n.r.holding.coming[p] != nil })
	if len(partitions) == 0 {
		return
	}
	snaps := make([]*snapshot, simPartitions)
	for _, p := range partitions {
		var err error
		if snaps[p], err = n.newestSnapshot(p); err != nil {
			return
		}
	}
	tries := 0
	n.c.w.Every(n.c.w.Between(time.Millisecond, 500*time.Millisecond), func() bool {
		if n.run != run || n.takeOn(run, partitions, snaps) {
			return false
		}
		n.c.w.Logf("%s can't take partitions %d yet", n.name, partitions)
		tries++
		return tries < 10
	})
}

func (n *simNode) takeOn(run int, partitions []int, snaps []*snapshot) (ok bool) {
	for _, p := range partitions {
		if n.e.Replication().Holds(p) || n.r.holding.coming[p] != nil {
			return true // by another take
		}
	}
	t, ok := n.r.come(partitions, snaps)
	if !ok {
		return false
	}
	first, _, err := n.c.log.Bounds(n.name)
	var start uint64
	if err == nil {
		start, err = t.begin(first)
	}
	if err != nil {
		n.c.w.Logf("%s: %v", n.name, err)
		n.r.abandon(t)
		return false
	}
	n.c.w.Logf("%s takes partitions %d, from message %d to %d", n.name, partitions, start, t.upTo)
	n.c.w.After(n.c.w.Between(time.Millisecond, 500*time.Millisecond), func() {
		if n.run != run {
			return
		}
		_, err := t.scratch.followTo(n.c.now(), t.upTo, n)
		if err == nil {
			err = n.r.came(t)
		}
		if err != nil {
			n.c.w.Logf("%s: %v", n.name, err)
			n.r.abandon(t)
			if errors.Is(err, errApart) && n.c.holes == simSound && len(n.c.spoiled) == 0 {
				n.c.failf("%s: %v", n.name, err)
			}
			return
		}
		if !n.c.healed && n.c.w.Chance(.4) { // its own hits from before are on their way still
			n.takes, n.listed, n.round = true, false, slices.Clone(partitions)
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
	if n.c.holes == simBeyond || n.c.blind {
		return
	}
	held := n.e.Replication().HeldPartitions()
	for _, w := range []int64{60, 1800} {
		var want uint64
		for key := range truth.all {
			if held.Has(n.e.Replication().PartitionOf(key)) {
				for at, hits := range truth.all[key] {
					if at > now-w && at <= now {
						want += hits
					}
				}
			}
		}
		got, err := n.e.Replication().CountIn(held, time.Unix(now, 0), weir.AllKeys, time.Duration(w)*time.Second)
		if err != nil || got.Lower > want || got.Upper < want {
			n.c.failf("%s counts %+v of all hits of %d partitions in %d s, want %d, %v", n.name, got, held.Len(), w, want, err)
		}
	}
}

// answers tells whether a node can answer for a key.
func (n *simNode) answers(key string) bool {
	if key == weir.AllKeys {
		return n.e.Replication().HeldPartitions().Len() == simPartitions
	}
	return n.e.Replication().Holds(n.e.Replication().PartitionOf(key))
}
