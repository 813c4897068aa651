package journal

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weir-counter/weir"
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

// taking is some partitions that were begun to be taken together.
type taking struct {
	partitions []int
	snaps      []*snapshot // by partition
	upTo       uint64      // the message that step 2 goes up to
	stands     [][]originPosition
	scratch    *replica
	gathered   gatherer
}

// come is step 1, of partitions with their newest snapshots, nil where there is none.
// ok is false while a snapshot is ahead of what was followed.
func (r *replica) come(partitions []int, snaps []*snapshot) (t *taking, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range partitions {
		if snaps[p] != nil && !r.audit.covers(p, snaps[p].positions) {
			return nil, false
		}
	}
	t = &taking{partitions: partitions, snaps: snaps, upTo: r.audit.stream, stands: make([][]originPosition, r.audit.partitions)}
	t.gathered = gatherer{weir.NewPartitionSet(r.audit.partitions), make([]gathered, r.audit.partitions)}
	r.holding.busy.Store(true)
	for _, p := range partitions {
		r.holding.coming[p] = &coming{held: make(chan error, 1)}
		t.stands[p] = r.audit.positionsOf(p, nil)
		t.gathered.of.Add(p)
	}
	t.scratch = &replica{node: r.node, clustered: true, audit: newAuditor(r.audit.origin, r.audit.partitions), to: t.gathered, holding: &holding{}}
	t.scratch.audit.alone = false
	return t, true
}

// covers tells whether a partition has all batches up to some positions.
func (a *auditor) covers(partition int, positions []originPosition) bool {
	for _, at := range positions {
		if have := a.lane(at.origin).positions[partition]; at.seq > have.seq {
			return false
		}
	}
	return true
}

// begin is the start of step 2: it returns the first message to follow, of those that
// the journal has from first on.
func (t *taking) begin(first uint64) (start uint64, err error) {
	start = t.scratch.audit.resumeOf(t.gathered.of, t.snaps, t.upTo)
	if start < first && start <= t.upTo {
		return 0, errLeftBehind
	}
	return start, nil
}

// errApart is why a partition can't be taken for now.
var errApart = errors.New("cannot catch up from this partition's snapshot; will retry with the next one")

// came is the end of step 2.
func (r *replica) came(t *taking) error {
	if lost := lossy(t.scratch.audit.findings); len(lost) > 0 {
		return fmt.Errorf("%w: %s", errApart, lost[0])
	}
	for _, p := range t.partitions {
		for _, want := range t.stands[p] {
			if is := t.scratch.audit.lane(want.origin).positions[p]; is.seq != want.seq || is.total != want.total {
				return fmt.Errorf("%w: partition %d of %s is at batch %d with %d hits, want batch %d with %d", errApart, p, want.node, is.seq, is.total, want.seq, want.total)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range t.partitions {
		if r.holding.coming[p].overflow {
			return fmt.Errorf("partition %d: %w", p, errOverflow)
		}
	}
	for _, p := range t.partitions {
		c := r.holding.coming[p]
		c.ready, c.before = true, t.gathered.by[p]
		if t.snaps[p] != nil {
			c.state = t.snaps[p].state
		}
		r.inherit(t, p)
	}
	return nil
}

// inherit takes over what a snapshot lacks, in place of what this node lost of the
// partition before come: the next snapshot says it too. The caller holds mu.
func (r *replica) inherit(t *taking, partition int) {
	lost := map[uint64]uint64{}
	if snap := t.snaps[partition]; snap != nil {
		for _, at := range snap.positions {
			lost[at.origin] = at.lost
		}
	}
	for _, stood := range t.stands[partition] { // has all origins of the snapshot: see covers
		l := r.audit.lane(stood.origin)
		l.positions[partition].lost += lost[stood.origin] - stood.lost
		l.lostBefore(partition, lost[stood.origin])
	}
}

// held is where the partitions tell that they are held, in their order.
func (r *replica) held(t *taking) (list []<-chan error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range t.partitions {
		list = append(list, r.holding.coming[p].held)
	}
	return list
}

// abandon takes back what come began, of partitions that are not held yet.
func (r *replica) abandon(t *taking) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range t.partitions {
		r.holding.done(p)
	}
}

// done forgets a partition that was coming. The caller holds the replica's lock.
func (h *holding) done(partition int) {
	delete(h.coming, partition)
	h.busy.Store(len(h.coming) > 0)
}

// One cut takes at most takesAtOnce partitions, and more than one only of so many bytes:
// it bounds how long the flush is.
const (
	takesAtOnce = 8
	takesBytes  = 4 << 20
)

// arriving are the partitions that the next cut takes.
func (r *replica) arriving() map[int]*coming {
	if !r.holding.busy.Load() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	list, bytes := map[int]*coming{}, 0
	for _, p := range slices.Sorted(maps.Keys(r.holding.coming)) {
		c := r.holding.coming[p]
		if !c.ready {
			continue
		}
		if bytes += c.size(); len(list) == takesAtOnce || len(list) > 0 && bytes > takesBytes {
			break
		}
		list[p] = c
	}
	return list
}

// size is about how much there is to put in.
func (c *coming) size() int {
	return len(c.state) + entryBytes*(c.before.entries+c.then.entries)
}

// arrive is step 3, after the partition was cut. The caller holds mu.
func (r *replica) arrive(partition int, c *coming) {
	if r.holding.coming[partition] != c {
		return // abandoned meanwhile
	}
	r.holding.done(partition)
	if c.overflow {
		c.held <- errOverflow
		return
	}
	r.holding.upTo[partition] = r.encoder.seqs[partition]
	c.held <- r.engine.Replication().Hold(partition, c.state, slices.Concat(c.before.followed(), c.then.followed()), slices.Concat(c.before.admitted, c.then.admitted))
}

// ownAsOf is up to when this node's own flushes came back from the journal, by its clock.
func (r *replica) ownAsOf() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.UnixMilli(r.audit.lane(r.audit.origin).at)
}

// release lets a partition go. What is on its way to the journal goes on.
func (r *replica) release(partition int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.engine.Replication().Release(partition)
}

// later are the partitions whose state was due and not taken, though they are held: their
// own hits from before are on their way.
func (r *replica) later(due map[int]bool, snaps []snapshot) (list []int) {
	for partition := range due {
		taken := slices.ContainsFunc(snaps, func(s snapshot) bool { return s.partition == partition })
		if !taken && r.engine.Replication().Holds(partition) {
			list = append(list, partition)
		}
	}
	return list
}

// stateReady tells whether a partition may be snapshotted: it is held, and its own hits
// from before that have come back. The caller holds mu.
func (r *replica) stateReady(partition int) bool {
	return r.engine.Replication().Holds(partition) && r.audit.lane(r.audit.origin).positions[partition].seq >= r.holding.upTo[partition]
}
