package replica

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
)

// A node takes partitions over while it runs, in four steps:
//
//  1. Load: the newest snapshots of the partitions go into an engine of their own, the copy.
//  2. Catch up: a separate replica follows the journal from the snapshots on, with the same code and repairs. It counts what it
//     finds in the copy. All partitions share this one read of the journal.
//  3. Begin: close to the end of the journal, this node begins to keep what it follows of the partitions. The copy catches up to there.
//  4. Hold: the next cuts empty the engine of the partitions' own hits, and move in what the copy has and what was kept since. Own
//     hits from then on are counted at once; those that were cut before come back from the journal.
//
// The running totals of all origins must be the same on both ways.
//
// The copy takes memory in addition to the engine's: a quarter of its budget (handOffPart). Partitions for which this is too little are
// left to the next call.

// handOff is the partitions that are taken together.
type handOff struct {
	partitions []int
	snaps      []*record.Snapshot // by partition, without their states
	wants      replication.PartitionSet
	scratch    *Replica       // follows the journal for the copy
	copied     *engine.Engine // the copy
	empty      int64          // bytes that it had at first
	most       int64          // bytes that it may take in addition
	arrivals   map[int]*arrival
	stands     [][]record.OriginPosition // by partition: where this node stood at step 3

	mu     sync.Mutex
	failed map[int]error // partitions that can't be taken
}

// Taking is what a hand-off needs of the world around a replica. Its methods may take long, and fail when they took too long, or the
// process ends: the hand-off is abandoned then.
type Taking interface {
	Source

	// Now is the time.
	Now() time.Time

	// Snapshots calls each with the newest good snapshot of each of some partitions that has one. It may do so on several goroutines.
	Snapshots(partitions []int, each func(record.Snapshot)) error

	// Pause returns after a moment, in which the follower may have gone on.
	Pause() error

	// First is the sequence of the first message that the journal has.
	First() (uint64, error)

	// Read calls each with the messages from one to another, in order. Those that the journal can't hand out it passes over.
	Read(from, to uint64, each func(sequence uint64, data []byte) error) error

	// Hurry has the next cut come soon: it takes what is handed over.
	Hurry(partitions []int)

	// Await waits until a cut has taken a partition, which closes held.
	Await(held <-chan struct{}) error
}

var (
	// ErrCannotCatchUp is why a partition can't be taken for now.
	ErrCannotCatchUp = errors.New("cannot catch up from this partition's snapshot; will retry with the next one")

	// errTrimmed is of a partition whose snapshot the journal does not reach back to.
	errTrimmed = fmt.Errorf("%w: it was trimmed", ErrCannotCatchUp)

	// errElsewhere is of a partition that is held, or is on its way by another call.
	errElsewhere = errors.New("it is held or taken already")
)

const (
	// handOffPart is the part of the engine's memory, as one of so many, that a copy may take.
	handOffPart = 4

	// handOffNear is how many messages the copy may be behind when step 3 begins: what is followed meanwhile is kept in memory.
	handOffNear = 256
)

// TakeOver takes partitions that are not held, from their snapshots and one read of the journal, and returns when they are held. It
// leaves some out if they need too much memory together: tried are the others. Of these the engine then holds all that
// could be taken; err says why the first of the rest could not.
func (r *Replica) TakeOver(partitions []int, by Taking) (tried []int, err error) {
	t, err := r.newHandOff(partitions)
	if err != nil {
		return partitions, err
	}
	defer r.abandonHandOff(t)
	if err := t.load(by); err != nil {
		return t.partitions, err
	}
	for !r.covers(t) {
		if err := by.Pause(); err != nil {
			return t.partitions, err
		}
	}
	for near := false; !near; {
		end := r.Next() - 1
		if err := t.catchUp(by, end); err != nil {
			return t.partitions, err
		}
		near = r.Next()-1 <= end+handOffNear
	}
	if err := t.catchUp(by, r.beginHandOff(t)); err != nil {
		return t.partitions, err
	}
	t.takeStates()
	r.commitHandOff(t)
	by.Hurry(t.partitions)
	for _, p := range t.partitions {
		if c := t.arrivals[p]; c != nil && t.failed[p] == nil {
			if err := by.Await(c.held); err != nil {
				return t.partitions, err
			}
			t.fail(p, c.err)
		}
	}
	for _, p := range t.partitions {
		err = cmp.Or(err, t.failed[p])
	}
	return t.partitions, err
}

// newHandOff returns one of some partitions, with an empty copy.
func (r *Replica) newHandOff(partitions []int) (*handOff, error) {
	cfg := r.engine.Config()
	cfg.Memory = 1 << 50 // shrink bounds it, and evicts nothing
	copied, err := engine.New(cfg)
	if err != nil {
		return nil, err
	}
	copied.Wall().Correct(r.engine.Wall().Corrected())
	t := &handOff{
		partitions: partitions, snaps: make([]*record.Snapshot, cfg.Partitions), wants: replication.NewPartitionSet(cfg.Partitions), copied: copied,
		empty: copied.Stats().Bytes, most: r.engine.Config().Memory / handOffPart, arrivals: map[int]*arrival{}, stands: make([][]record.OriginPosition, cfg.Partitions), failed: map[int]error{},
	}
	for _, p := range partitions {
		t.wants.Add(p)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t.scratch = &Replica{node: r.node, clustered: true, audit: NewAuditor(r.audit.Origin, r.audit.Partitions), to: copySink{NewHolding(copied), t}, holding: &Holding{}}
	t.scratch.audit.Alone, t.scratch.audit.AtOnce = false, copied.Keyspace().AtOnce
	t.scratch.audit.requests = r.audit.requests.clone()
	t.scratch.audit.together = int(min(replayBytes, t.most/4))
	return t, copied.Close() // its janitor
}

// copySink counts in the copy of a hand-off. What keys have used of limits, and receipts, all nodes have anyway.
type copySink struct {
	*Holding
	handOff *handOff
}

func (s copySink) Wants(partition int) bool { return s.handOff.wants.Has(partition) }

func (s copySink) Count(b record.Batch, _, _ bool) error {
	if !b.OfLimits() && b.Kind != record.KindPast {
		s.handOff.fail(b.Partition, s.Holding.Count(b, false, false))
	}
	return nil
}

func (copySink) Receipts([][]byte, uint64, bool) error { return nil }

// fail notes why a partition can't be taken; nil: it can.
func (t *handOff) fail(partition int, err error) {
	if err == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed[partition] == nil {
		t.failed[partition] = fmt.Errorf("partition %d: %w", partition, err)
	}
}

// load is step 1.
func (t *handOff) load(by Taking) error {
	first, err := by.First()
	if err != nil {
		return err
	}
	dropped := map[int]bool{} // for want of memory
	err = by.Snapshots(t.partitions, func(snap record.Snapshot) {
		if t.crowded() {
			t.mu.Lock()
			defer t.mu.Unlock()
			dropped[snap.Partition] = true
			return
		}
		t.fail(snap.Partition, t.copied.LoadHits(snap.Partition, snap.State))
		snap.State, snap.Receipts = nil, nil
		t.snaps[snap.Partition] = &snap
	})
	t.drop(func(p int) bool { return dropped[p] })
	for _, p := range t.partitions {
		if from := t.snaps[p]; from == nil && first > 1 || from != nil && from.From+1 < first {
			t.fail(p, errTrimmed)
			t.wants.Remove(p)
		}
	}
	t.scratch.audit.ResumeOf(t.wants, t.snaps, math.MaxUint64-1) // the newest message is not known, and does not matter
	return err
}

// crowded reports whether the copy takes as much memory as it may.
func (t *handOff) crowded() bool { return t.copied.Stats().Bytes-t.empty > t.most }

// drop leaves some partitions to the next call.
func (t *handOff) drop(these func(partition int) bool) {
	t.partitions = slices.DeleteFunc(slices.Clone(t.partitions), func(p int) bool {
		if these(p) {
			t.wants.Remove(p)
			t.copied.Release(p)
			return true
		}
		return false
	})
}

// covers reports whether this node has followed all that is in the snapshots.
func (r *Replica) covers(t *handOff) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range t.partitions {
		if t.snaps[p] == nil {
			continue
		}
		for _, at := range t.snaps[p].Positions {
			if at.Seq > r.audit.progressOf(at.Origin).positions[p].Seq {
				return false
			}
		}
	}
	return true
}

// catchUp is step 2: the copy follows the journal up to a message.
func (t *handOff) catchUp(by Taking, upTo uint64) error {
	err := by.Read(t.scratch.Next(), upTo, func(sequence uint64, data []byte) error {
		for sequence%64 == 0 && len(t.partitions) > 1 && t.crowded() {
			kept := t.partitions[:len(t.partitions)/2]
			t.drop(func(p int) bool { return !slices.Contains(kept, p) })
		}
		_, err := t.scratch.Follow(by.Now(), sequence, data, by)
		return err
	})
	if err == nil { // what the journal did not hand out
		_, err = t.scratch.FollowTo(by.Now(), upTo, by)
	}
	if err == nil {
		err = t.scratch.audit.flush.count(t.scratch.audit, t.scratch.to)
	}
	if errors.Is(err, ErrLeftBehind) { // while it was read
		return errTrimmed
	}
	return err
}

// beginHandOff is step 3. It returns the message up to which the copy is to have all.
func (r *Replica) beginHandOff(t *handOff) (upTo uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range t.partitions {
		if r.holding.arrivals[p] != nil || r.engine.Keyspace().Holds(p) {
			t.fail(p, errElsewhere)
		}
		if t.failed[p] != nil {
			continue
		}
		t.arrivals[p] = &arrival{held: make(chan struct{})}
		t.stands[p] = r.audit.positionsOf(p, nil)
		r.holding.arrivals[p] = t.arrivals[p]
		r.holding.busy.Store(true)
	}
	return r.audit.Stream
}

func (t *handOff) takeStates() {
	_ = concurrency.Do(len(t.partitions), func(i int) error {
		if c := t.arrivals[t.partitions[i]]; c != nil {
			c.state = t.copied.Keyspace().Take(t.partitions[i])
		}
		return nil
	})
}

// commitHandOff begins step 4.
func (r *Replica) commitHandOff(t *handOff) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range t.partitions {
		c := t.arrivals[p]
		if c == nil {
			continue
		}
		if c.overflow {
			t.fail(p, ErrOverflow)
		}
		t.fail(p, t.differs(p))
		if t.failed[p] != nil {
			r.holding.done(p)
			continue
		}
		c.ready = true
		r.inherit(t, p)
	}
}

// differs says what the copy has of a partition, where that is not what this node followed, or not all that came after the snapshot.
func (t *handOff) differs(partition int) error {
	lost := t.lost(partition)
	for _, want := range t.stands[partition] {
		is := t.scratch.audit.progressOf(want.Origin).positions[partition]
		if is.Seq != want.Seq || is.Total != want.Total {
			return fmt.Errorf("%w: of %s the copy has batch %d with %d hits, want batch %d with %d", ErrCannotCatchUp, want.Node, is.Seq, is.Total, want.Seq, want.Total)
		}
		if is.Lost > lost[want.Origin] {
			return fmt.Errorf("%w: hits of %s are lost", ErrCannotCatchUp, want.Node)
		}
	}
	return nil
}

// lost is what the snapshot of a partition lacks, by origin.
func (t *handOff) lost(partition int) map[uint64]uint64 {
	lost := map[uint64]uint64{}
	if snap := t.snaps[partition]; snap != nil {
		for _, at := range snap.Positions {
			lost[at.Origin] = at.Lost
		}
	}
	return lost
}

// inherit takes over what a snapshot lacks, in place of what this node lost of the partition before step 3. The next
// snapshot records it, too. The caller holds mu.
func (r *Replica) inherit(t *handOff, partition int) {
	lost := t.lost(partition)
	for _, stood := range t.stands[partition] { // has all origins of the snapshot: see covers
		l := r.audit.progressOf(stood.Origin)
		l.positions[partition].Lost += lost[stood.Origin] - stood.Lost
		l.lostBefore(partition, lost[stood.Origin])
	}
}

// abandonHandOff takes back what beginHandOff began, of partitions that are not held yet.
func (r *Replica) abandonHandOff(t *handOff) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p, c := range t.arrivals {
		if r.holding.arrivals[p] == c {
			r.holding.done(p)
		}
	}
}

// done forgets a partition that was coming. The caller holds the replica's lock.
func (h *Holding) done(partition int) {
	delete(h.arrivals, partition)
	h.busy.Store(len(h.arrivals) > 0)
}

// handOffEntries is up to how many entries one cut takes more than one partition. It bounds the length of the flush.
const handOffEntries = 1 << 16

// nextArrivals are the partitions that the next cut takes.
func (r *Replica) nextArrivals() map[int]*arrival {
	if !r.holding.busy.Load() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	list, entries := map[int]*arrival{}, 0
	for _, p := range slices.Sorted(maps.Keys(r.holding.arrivals)) {
		c := r.holding.arrivals[p]
		if !c.ready {
			continue
		}
		if entries += len(c.state.Keys) + c.then.entries; len(list) > 0 && entries > handOffEntries {
			break
		}
		list[p] = c
	}
	return list
}

// completeHandOff ends step 4, after the partition was cut. The caller holds mu.
func (r *Replica) completeHandOff(partition int, c *arrival) {
	if r.holding.arrivals[partition] != c {
		return // abandoned meanwhile
	}
	r.holding.done(partition)
	if c.err = ErrOverflow; !c.overflow {
		r.holding.upTo[partition] = r.encoder.Seqs[partition]
		c.err = r.engine.Hold(partition, c.state, c.then.followed())
	}
	close(c.held)
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
		if !taken && r.engine.Keyspace().Holds(partition) {
			list = append(list, partition)
		}
	}
	return list
}

// stateReady reports whether a partition may be snapshotted: it is held, and its own hits
// from before that have come back. The caller holds mu.
func (r *Replica) stateReady(partition int) bool {
	return r.engine.Keyspace().Holds(partition) && r.audit.progressOf(r.audit.Origin).positions[partition].Seq >= r.holding.upTo[partition]
}
