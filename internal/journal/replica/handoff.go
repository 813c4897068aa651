package replica

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
)

// A node takes a partition while it runs in three steps:
//
//  1. come: from now on it keeps what it follows of the partition. It is where the
//     journal is followed to, and the snapshot must not be ahead of that.
//  2. A replica of its own, whose sink only gathers, follows the journal from the
//     snapshot up to there: the same code, with the same repairs.
//  3. The next cut empties the engine of the partition's own hits, and puts the
//     snapshot, the gathered and the kept hits in. Own hits from then on are counted
//     at once; those that were cut before come back from the journal.
//
// The running totals of all origins must be the same on both ways.

// handOff is some partitions that were begun to be taken together.
type handOff struct {
	partitions []int
	arrivals   []*arrival         // of partitions
	snaps      []*record.Snapshot // by partition
	upTo       uint64             // the message that step 2 goes up to
	stands     [][]record.OriginPosition
	scratch    *Replica
	gathered   gatherer
}

// beginHandOff is step 1, of partitions with their newest snapshots, nil where there is none.
// ok is false while a snapshot is ahead of what was followed.
func (r *Replica) beginHandOff(partitions []int, snaps []*record.Snapshot) (t *handOff, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range partitions {
		if snaps[p] != nil && !r.audit.covers(p, snaps[p].Positions) {
			return nil, false
		}
	}
	t = &handOff{partitions: partitions, snaps: snaps, upTo: r.audit.Stream, stands: make([][]record.OriginPosition, r.audit.Partitions)}
	t.gathered = gatherer{replication.NewPartitionSet(r.audit.Partitions), make([]gathered, r.audit.Partitions)}
	r.holding.busy.Store(true)
	for _, p := range partitions {
		t.arrivals = append(t.arrivals, &arrival{held: make(chan error, 1)})
		r.holding.arrivals[p] = t.arrivals[len(t.arrivals)-1]
		t.stands[p] = r.audit.positionsOf(p, nil)
		t.gathered.of.Add(p)
	}
	t.scratch = &Replica{node: r.node, clustered: true, audit: NewAuditor(r.audit.Origin, r.audit.Partitions), to: t.gathered, holding: &Holding{}}
	t.scratch.audit.Alone = false
	t.scratch.audit.requests = r.audit.requests.clone()
	return t, true
}

// covers tells whether a partition has all batches up to some positions.
func (a *Auditor) covers(partition int, positions []record.OriginPosition) bool {
	for _, at := range positions {
		if have := a.progressOf(at.Origin).positions[partition]; at.Seq > have.Seq {
			return false
		}
	}
	return true
}

// ErrCannotCatchUp is why a partition can't be taken for now.
var ErrCannotCatchUp = errors.New("cannot catch up from this partition's snapshot; will retry with the next one")

// commitHandOff is the end of step 2.
func (r *Replica) commitHandOff(t *handOff) error {
	if lost := record.Losses(t.scratch.audit.Findings); len(lost) > 0 {
		return fmt.Errorf("%w: %s", ErrCannotCatchUp, lost[0])
	}
	for _, p := range t.partitions {
		for _, want := range t.stands[p] {
			if is := t.scratch.audit.progressOf(want.Origin).positions[p]; is.Seq != want.Seq || is.Total != want.Total {
				return fmt.Errorf("%w: partition %d of %s is at batch %d with %d hits, want batch %d with %d", ErrCannotCatchUp, p, want.Node, is.Seq, is.Total, want.Seq, want.Total)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range t.partitions {
		if r.holding.arrivals[p].overflow {
			return fmt.Errorf("partition %d: %w", p, ErrOverflow)
		}
	}
	for _, p := range t.partitions {
		c := r.holding.arrivals[p]
		c.ready, c.before = true, t.gathered.by[p]
		if t.snaps[p] != nil {
			c.state = t.snaps[p].State
		}
		r.inherit(t, p)
	}
	return nil
}

// inherit takes over what a snapshot lacks, in place of what this node lost of the
// partition before come: the next snapshot says it too. The caller holds mu.
func (r *Replica) inherit(t *handOff, partition int) {
	lost := map[uint64]uint64{}
	if snap := t.snaps[partition]; snap != nil {
		for _, at := range snap.Positions {
			lost[at.Origin] = at.Lost
		}
	}
	for _, stood := range t.stands[partition] { // has all origins of the snapshot: see covers
		l := r.audit.progressOf(stood.Origin)
		l.positions[partition].Lost += lost[stood.Origin] - stood.Lost
		l.lostBefore(partition, lost[stood.Origin])
	}
}

// abandonHandOff takes back what come began, of partitions that are not held yet.
func (r *Replica) abandonHandOff(t *handOff) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, p := range t.partitions {
		if r.holding.arrivals[p] == t.arrivals[i] {
			r.holding.done(p)
		}
	}
}

// done forgets a partition that was coming. The caller holds the replica's lock.
func (h *Holding) done(partition int) {
	delete(h.arrivals, partition)
	h.busy.Store(len(h.arrivals) > 0)
}

// One cut takes at most handOffsAtOnce partitions, and more than one only of so many bytes:
// it bounds how long the flush is.
const (
	handOffsAtOnce = 8
	handOffBytes   = 4 << 20
)

// nextArrivals are the partitions that the next cut takes.
func (r *Replica) nextArrivals() map[int]*arrival {
	if !r.holding.busy.Load() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	list, bytes := map[int]*arrival{}, 0
	for _, p := range slices.Sorted(maps.Keys(r.holding.arrivals)) {
		c := r.holding.arrivals[p]
		if !c.ready {
			continue
		}
		if bytes += c.size(); len(list) == handOffsAtOnce || len(list) > 0 && bytes > handOffBytes {
			break
		}
		list[p] = c
	}
	return list
}

// size is about how much there is to put in.
func (c *arrival) size() int {
	return len(c.state) + entryBytes*(c.before.entries+c.then.entries)
}

// completeHandOff is step 3, after the partition was cut. The caller holds mu.
func (r *Replica) completeHandOff(partition int, c *arrival) {
	if r.holding.arrivals[partition] != c {
		return // abandoned meanwhile
	}
	r.holding.done(partition)
	if c.overflow {
		c.held <- ErrOverflow
		return
	}
	r.holding.upTo[partition] = r.encoder.Seqs[partition]
	c.held <- r.engine.Hold(partition, c.state, slices.Concat(c.before.followed(), c.then.followed()))
}

// OwnAsOf is up to when this node's own flushes came back from the journal, by its clock.
func (r *Replica) OwnAsOf() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.UnixMilli(r.audit.progressOf(r.audit.Origin).at)
}

// Release lets a partition go. What is on its way to the journal goes on.
func (r *Replica) Release(partition int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.engine.Release(partition)
}

// Later are the partitions whose state was due and not taken, though they are held: their
// own hits from before are on their way.
func (r *Replica) Later(due map[int]bool, snaps []record.Snapshot) (list []int) {
	for _, partition := range slices.Sorted(maps.Keys(due)) {
		taken := slices.ContainsFunc(snaps, func(s record.Snapshot) bool { return s.Partition == partition })
		if !taken && r.engine.Holds(partition) {
			list = append(list, partition)
		}
	}
	return list
}

// stateReady tells whether a partition may be snapshotted: it is held, and its own hits
// from before that have come back. The caller holds mu.
func (r *Replica) stateReady(partition int) bool {
	return r.engine.Holds(partition) && r.audit.progressOf(r.audit.Origin).positions[partition].Seq >= r.holding.upTo[partition]
}
