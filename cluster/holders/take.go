package holders

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-counter/weir/internal/parallel"
	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/replica"
	"github.com/weir-counter/weir/journal/stream"
)

// takeTime bounds each wait of a take, but not the reading, which goes on.
const takeTime = time.Minute

var errTooLong = fmt.Errorf("a partition was not taken within %v", takeTime)

// takeOver takes partitions that are not held, from their snapshots and the journal (replica.TakeOver).
func (k *Keeper) takeOver(ctx context.Context, partitions []int) error {
	return k.Replica.TakeOver(partitions, &taking{k.Lost.Source(ctx), ctx, k, time.Now()})
}

// taking is what a take-over needs of the journal's stores and of the clock.
type taking struct {
	replica.Source
	ctx    context.Context
	keeper *Keeper
	began  time.Time
}

// Now is the time.
func (*taking) Now() time.Time { return time.Now() }

// Snapshots reads the newest good snapshot of some partitions, by partition.
func (t *taking) Snapshots(partitions []int) ([]*record.Snapshot, error) {
	k, ctx := t.keeper, t.ctx
	snaps := make([]*record.Snapshot, k.View.partitions())
	return snaps, parallel.Do(len(partitions), func(i int) error {
		list, _, err := k.Store.SlotsOf(ctx, partitions[i])
		if err != nil {
			return err
		}
		for _, at := range list {
			snap, err := k.Store.GetSnapshot(ctx, at)
			if err == nil {
				snaps[partitions[i]] = &snap
				return nil
			}
			if ctx.Err() != nil || stream.IsUnavailable(err) {
				return err
			}
			k.View.cfg.Log.Warn("journal: could not read a snapshot; trying the next one", "partition", partitions[i], "error", err)
		}
		return nil
	})
}

// comePoll is how often the keeper looks how far the follower is.
const comePoll = 20 * time.Millisecond

// Pause waits for the follower to go on.
func (t *taking) Pause() error {
	if time.Since(t.began) > takeTime {
		return errTooLong
	}
	select {
	case <-t.ctx.Done():
		return context.Cause(t.ctx)
	case <-time.After(comePoll):
		return nil
	}
}

// First is the first message of the journal.
func (t *taking) First() (uint64, error) {
	first, _, _, err := t.keeper.Store.Bounds(t.ctx)
	return first, err
}

// Read reads the journal.
func (t *taking) Read(from, to uint64, each func(sequence uint64, data []byte) error) error {
	return t.keeper.Store.Read(t.ctx, from, to, each)
}

// Hurry has the next cut come now, and not a flush interval later.
func (t *taking) Hurry([]int) { t.keeper.Flushes.Hurry() }

// Await waits for a cut.
func (t *taking) Await(held <-chan error) error {
	select {
	case err := <-held:
		return err
	case <-t.ctx.Done():
		return context.Cause(t.ctx)
	case <-time.After(takeTime):
		return errTooLong
	}
}
