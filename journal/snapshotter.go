package journal

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// snapshotter takes rounds of snapshots: every partition once, a few at each
// flush, stored by a goroutine of its own so that flushes go on. A round starts
// when the journal has grown by Config.SnapshotBytes, or by the size of the round
// before if that is more, so that snapshots never write more than the journal.
type snapshotter struct {
	grown atomic.Int64 // bytes of journal since the last round began
	kept  atomic.Int64 // bytes of journal on disk
	work  chan []snapshot
	wrote chan struct{} // something was stored

	unstored atomic.Pointer[error] // why the last snapshot that was tried could not be stored; nil: it was

	mu sync.Mutex
	rounds
	token uint64    // of the lease under which have was read, among many nodes
	by    string    // the node that had it
	moved uint64    // oldestNeeded after the round before
	pause time.Time // until then no round begins, after one that could not store all
	pins  pins
}

func newSnapshotter(have [][slots]kept) snapshotter {
	return snapshotter{rounds: rounds{have: have}, work: make(chan []snapshot, 1), wrote: make(chan struct{}, 1), pins: pins{turn: make(chan struct{}, 1)}}
}

// startRound starts a round of the partitions whose snapshots are this node's to take.
func (j *Journal) startRound() {
	s, todo := &j.snapshots, j.snapshotsToTake()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.under && s.pins.cancel == nil {
		s.start(todo)
		s.grown.Store(0)
	}
}

// retake puts a partition back into the round.
func (s *snapshotter) retake(partition int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.again(partition)
}

func (s *snapshotter) inRound() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.under
}

// dueNow is rounds.due.
func (s *snapshotter) dueNow(haste bool) map[int]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.due(haste)
}

// offer hands acknowledged snapshots to the goroutine, which has none: see rounds.taken.
func (s *snapshotter) offer(due map[int]bool, snaps []snapshot, later []int) {
	if len(due) == 0 {
		return
	}
	s.mu.Lock()
	s.taken(due, later)
	s.mu.Unlock()
	s.work <- snaps
}

func (j *Journal) runSnapshotter(ctx context.Context) {
	s, looked := &j.snapshots, time.Now()
	for {
		if j.cfg.clustered() && time.Since(looked) > keptEvery {
			j.keepTrimmed(ctx)
			looked = time.Now()
		}
		select {
		case <-ctx.Done():
			return
		case snaps := <-s.work:
			_ = inParallel(len(snaps), func(i int) error {
				j.settleSnapshot(ctx, snaps[i])
				return nil
			})
			j.endOfBatch(ctx)
			if j.cfg.FlushEvery > defaultFlushEvery && s.inRound() {
				j.flusher.hurry() // a round of many flushes would take hours of them, and nothing is trimmed meanwhile
			}
		case <-time.After(min(j.cfg.FlushEvery, defaultFlushEvery)):
			if j.cfg.FlushEvery > defaultFlushEvery && j.engine.Replication().Crowded() {
				j.flusher.hurry() // or they are refused until the interval is over
			}
			if j.room().endsPin(s.kept.Load()) {
				s.endPin(errTooSlow)
			}
			if j.roundDue() && j.lookAtSnapshots(ctx) {
				j.startRound()
			}
		}
	}
}

// roundDue tells whether a round of snapshots should start.
func (j *Journal) roundDue() bool {
	s, r := &j.snapshots, j.room()
	grown, kept := s.grown.Load(), s.kept.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	return !time.Now().Before(s.pause) && s.startNow(grown, r.every(j.cfg.SnapshotBytes, s.last, kept), r.haste(kept), r.full(kept))
}

// settleSnapshot stores a snapshot once its own hits came back from the journal.
func (j *Journal) settleSnapshot(ctx context.Context, snap snapshot) {
	if !j.awaitSettled(ctx, snap) {
		j.snapshots.retake(snap.partition)
		return
	}
	err := j.storeSnapshot(ctx, snap)
	if err == nil {
		j.snapshots.unstored.Store(nil)
	} else if ctx.Err() == nil {
		j.suspect.Store(true)
		j.snapshots.unstored.Store(&err)
		j.log.Error("journal: could not store a snapshot; the previous one stays, the next round will retry",
			"partition", snap.partition, "error", err)
	}
}

// keptEvery is how often a clustered node looks how much journal there is, which others
// write and trim.
const keptEvery = 5 * time.Second

// keepTrimmed finds out how much journal there is. The node that trims does so apart from
// its rounds when there is much: others may have ended theirs later.
func (j *Journal) keepTrimmed(ctx context.Context) {
	j.lookAtKept(ctx)
	if !j.room().haste(j.snapshots.kept.Load()) || !j.trims() || j.snapshots.inRound() {
		return
	}
	if needed := j.neededByAll(ctx); needed > 1 {
		if err := j.trim(ctx, needed-1); err != nil && ctx.Err() == nil {
			j.log.Warn("journal: could not trim the journal; will retry", "error", err)
		}
	}
	if kept := j.snapshots.kept.Load(); j.room().endsPin(kept) {
		j.log.Warn("journal: can't be trimmed because the snapshots of some partitions are old; hits will be refused once it is full", "kept", kept, "partitions", j.snapshots.oldest())
	}
}

// lookAtKept asks how much journal there is.
func (j *Journal) lookAtKept(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, oneAsk)
	defer cancel()
	if _, _, bytes, err := j.store.bounds(ctx); err == nil {
		j.snapshots.kept.Store(int64(bytes)) // the flusher may add to it meanwhile: an estimate
	}
}

// oldest are some of the partitions for whose snapshots the journal is kept.
func (s *snapshotter) oldest() (list []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	needed := oldestNeeded(s.have)
	for partition, of := range s.have {
		if slices.ContainsFunc(of[:], func(k kept) bool { return k.upTo == needed }) && len(list) < 8 {
			list = append(list, partition)
		}
	}
	return list
}

// settlePoll is how often the goroutine looks whether the own hits of a snapshot came
// back, which takes the follower some ms.
const settlePoll = 10 * time.Millisecond

// awaitSettled waits until a snapshot's own hits came back from the journal, and tells
// whether it may be stored.
func (j *Journal) awaitSettled(ctx context.Context, snap snapshot) bool {
	for {
		if settled, sound := j.replica.settle(snap); settled {
			return sound
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(settlePoll):
		}
	}
}

// storeSnapshot writes a snapshot over the older of the partition's two.
func (j *Journal) storeSnapshot(ctx context.Context, snap snapshot) error {
	s := &j.snapshots
	s.mu.Lock()
	have := s.have[snap.partition]
	slot, ok := slotFor(have, snap.from)
	if !ok {
		s.mu.Unlock()
		return nil // another node, further on, has stored both
	}
	s.have[snap.partition][slot] = kept{} // until the answer is there
	s.bytes += int64(len(snap.state))
	s.mu.Unlock()
	revision, err := j.store.putSnapshot(ctx, snap, slot, have[slot].revision)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.token, s.lacks = 0, true // look at the slots again
		return err
	}
	s.have[snap.partition][slot] = kept{snap.from + 1, revision}
	return nil
}

// endOfBatch ends the round after its last partition, and trims the journal
// below what the older snapshots need.
func (j *Journal) endOfBatch(ctx context.Context) {
	s := &j.snapshots
	s.mu.Lock()
	ended := s.rounds.stored()
	needed := uint64(0)
	if ended {
		needed = oldestNeeded(s.have)
		if s.pause = (time.Time{}); s.lacks || needed == s.moved {
			s.pause = time.Now().Add(roundAgain)
		}
		s.moved = needed
	}
	s.mu.Unlock()
	if ended && j.trims() && j.cfg.clustered() && parted(j.Holders(), len(s.have)) {
		needed = j.neededByAll(ctx)
	}
	if needed > 1 && j.trims() {
		if err := j.trim(ctx, needed-1); err != nil && ctx.Err() == nil {
			j.suspect.Store(true)
			j.log.Error("journal: could not trim the journal; it takes more space until the next round", "error", err)
		}
	}
	if ended {
		j.stats.rounds.Add(1)
	}
	select {
	case s.wrote <- struct{}{}:
	default:
	}
}

// neededByAll is oldestNeeded where others take snapshots too. 0: it could not be found
// out.
func (j *Journal) neededByAll(ctx context.Context) uint64 {
	s := &j.snapshots
	s.mu.Lock()
	token := s.token
	s.mu.Unlock()
	if !j.listStored(ctx, j.cfg.Join.Node, token) {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return oldestNeeded(s.have)
}

// roundAgain is how long a round that could not store all, or that let nothing go, is
// not followed by another.
const roundAgain = 3 * time.Second

// trim removes the journal up to and including a sequence.
func (j *Journal) trim(ctx context.Context, upTo uint64) error {
	if err := j.store.trim(ctx, upTo); err != nil {
		return err
	}
	j.lookAtKept(ctx)
	return nil
}
