package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/internal/journal/stream"
	"github.com/weir-counter/weir/internal/wire"
)

// Start is what a start reads, and how.
type Start struct {
	Store      *stream.Store
	Replica    *replica.Replica
	Partitions int
	Dir        string // data directory, for its watermark
	New        bool   // it has no watermark yet
	ReplicaOf  bool   // it is a replica of a shared journal: other nodes may have what it lacks at its end

	// Follow applies a message and those before it that did not come, and FollowTo all up to
	// a message. Both ask other nodes for what is missing. nil: there are no other nodes.
	Follow   func(ctx context.Context, sequence uint64, data []byte) error
	FollowTo func(ctx context.Context, sequence uint64) error

	Progress func(done, all uint64) // messages; nil: nobody asks
}

// Loaded is what a start found.
type Loaded struct {
	Findings []record.Finding
	Have     [][record.Slots]replica.Slot // what the slots have, by partition
	Last     uint64                       // sequence of the stream's last message
	Reached  uint64                       // the last sequence that is known to have been there
	Bytes    uint64                       // of the journal
}

// Load brings the engine to where the journal ends: for each partition the
// newest good snapshot, then the batches after it, in order, audited. What another build wrote is no
// damage, which could be accepted: the error is wire.ErrVersion.
func (s Start) Load(ctx context.Context) (Loaded, error) {
	var l Loaded
	first, last, bytes, err := s.Store.Bounds(ctx)
	if err != nil {
		return l, err
	}
	l.Last, l.Bytes = last, bytes
	snaps, err := s.loadSnapshots(ctx, &l)
	if err != nil {
		return l, err
	}
	var reached Watermark
	if !s.New {
		if reached, err = ReadWatermark(s.Dir); err != nil {
			s.Replica.Note(record.Finding{Where: "mark", What: err.Error(), Cost: "none, but a journal that was cut off would not be found", Harmless: true})
		}
	}
	known := reached.Stream
	for _, snap := range snaps {
		if snap != nil {
			known = max(known, snap.From)
		}
	}
	if s.Follow != nil {
		if last, err = s.Store.AwaitApplied(ctx, last, known); err != nil {
			return l, err
		}
	}
	l.Last = last
	start := s.Replica.Resume(snaps, first, last)
	apply := func(sequence uint64, data []byte) error {
		if s.Progress != nil && sequence%64 == 0 {
			s.Progress(sequence-start+1, last-start+1)
		}
		if s.Follow != nil {
			return s.Follow(ctx, sequence, data)
		}
		return s.Replica.Replay(sequence, data)
	}
	if err := s.Store.Read(ctx, start, last, apply); err != nil {
		return l, fmt.Errorf("journal: replay: %w", err)
	}
	l.Reached = max(last, known)
	if s.ReplicaOf && known > last {
		l.Reached = last
		s.Replica.Note(record.Finding{Where: fmt.Sprintf("journal messages %d to %d", last+1, known), What: "acknowledged, and not in this replica",
			Cost: "none if the other nodes have them, which this can't tell", Harmless: true})
	}
	if s.Follow != nil {
		if err := s.FollowTo(ctx, last); err != nil {
			return l, fmt.Errorf("journal: replay: %w", err)
		}
	}
	if l.Findings, err = s.Replica.EndReplay(l.Reached, last); err != nil {
		return l, fmt.Errorf("journal: replay: %w", err)
	}
	return l, nil
}

// loadSnapshots loads the newest good snapshot of each partition and returns
// it, without its state; nil: there is none.
func (s Start) loadSnapshots(ctx context.Context, l *Loaded) ([]*record.Snapshot, error) {
	partitions := s.Partitions
	lists, findings, err := s.Store.ListSnapshots(ctx, partitions)
	if err != nil {
		return nil, fmt.Errorf("journal: list of snapshots: %w", err)
	}
	l.Have = make([][record.Slots]replica.Slot, partitions)
	snaps := make([]*record.Snapshot, partitions)
	spoiled := make([][]record.Finding, partitions)
	err = concurrency.Do(partitions, func(partition int) error {
		for i, at := range lists[partition] {
			snap, err := s.loadSnapshot(ctx, at)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if errors.Is(err, wire.ErrVersion) {
				return fmt.Errorf("snapshot %s: %w", record.SlotName(partition, at.Slot), err)
			}
			if err != nil {
				spoiled[partition] = append(spoiled[partition], record.SpoiledSnapshot(partition, at.Slot, err))
				continue
			}
			snap.State, snap.Receipts = nil, nil
			snaps[partition] = &snap
			for _, good := range lists[partition][i:] {
				l.Have[partition][good.Slot] = replica.Slot{UpTo: good.From + 1, Revision: good.Sequence}
			}
			return nil
		}
		return nil
	})
	s.Replica.Note(slices.Concat(findings, slices.Concat(spoiled...))...)
	return snaps, err
}

func (s Start) loadSnapshot(ctx context.Context, at record.StoredSnapshot) (record.Snapshot, error) {
	snap, err := s.Store.GetSnapshot(ctx, at)
	if err != nil {
		return snap, err
	}
	return snap, s.Replica.LoadSnapshot(snap)
}

// settleSnapshot stores a snapshot once its own hits came back from the journal.
func (c *Checkpointer) settleSnapshot(ctx context.Context, snap record.Snapshot) {
	if !c.awaitSettled(ctx, snap) {
		c.retake(snap.Partition)
		return
	}
	err := c.storeSnapshot(ctx, snap)
	if err == nil {
		c.unstored.Store(nil)
	} else if ctx.Err() == nil {
		c.cfg.Suspect()
		c.unstored.Store(&err)
		c.cfg.Logger.Error("journal: could not store a snapshot; the previous one stays, the next round will retry",
			"partition", snap.Partition, "error", err)
	}
}

// settlePoll is how often the goroutine looks whether the own hits of a snapshot came
// back, which takes the follower some ms.
const settlePoll = 10 * time.Millisecond

// awaitSettled waits until a snapshot's own hits came back from the journal, and tells
// whether it may be stored.
func (c *Checkpointer) awaitSettled(ctx context.Context, snap record.Snapshot) bool {
	for {
		if settled, sound := c.cfg.Replica.Settle(snap); settled {
			return sound
		}
		if concurrency.Sleep(ctx, settlePoll) != nil {
			return false
		}
	}
}

// storeSnapshot writes a snapshot over the older of the partition's two.
func (c *Checkpointer) storeSnapshot(ctx context.Context, snap record.Snapshot) error {
	c.mu.Lock()
	slot, before, ok := c.rounds.Put(snap.Partition, snap.From, len(snap.State))
	c.mu.Unlock()
	if !ok {
		return nil
	}
	revision, err := c.cfg.Store.PutSnapshot(ctx, snap, slot, before)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.token = 0 // look at the slots again
		c.rounds.Unanswered()
		return err
	}
	c.rounds.Answered(snap.Partition, slot, snap.From, revision)
	return nil
}

// endOfBatch ends the round after its last partition, and trims the journal
// below what the older snapshots need.
func (c *Checkpointer) endOfBatch(ctx context.Context) {
	c.mu.Lock()
	needed, ended := c.rounds.Stored(time.Now())
	c.mu.Unlock()
	if ended && c.Trims() && c.cfg.Clustered && c.cfg.Holders().Parted {
		needed = c.neededByAll(ctx)
	}
	if needed > 1 && c.Trims() {
		if err := c.trim(ctx, needed-1); err != nil && ctx.Err() == nil {
			c.cfg.Suspect()
			c.cfg.Logger.Error("journal: could not trim the journal; it takes more space until the next round", "error", err)
		}
	}
	if ended {
		c.ended.Add(1)
	}
	c.wrote.Raise()
}

// neededByAll is OldestNeeded where others take snapshots too. 0: it could not be found
// out.
func (c *Checkpointer) neededByAll(ctx context.Context) uint64 {
	c.mu.Lock()
	token := c.token
	c.mu.Unlock()
	if !c.listStored(ctx, c.cfg.Node, token) {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return replica.OldestNeeded(c.rounds.Have)
}
