package checkpoint

import (
	"context"
	"time"

	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/replica"
)

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
		select {
		case <-ctx.Done():
			return false
		case <-time.After(settlePoll):
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
	select {
	case c.wrote <- struct{}{}:
	default:
	}
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
