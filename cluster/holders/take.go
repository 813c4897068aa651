package holders

import (
	"context"
	"errors"
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

// takeOver takes partitions that are not held, from their snapshots and the journal (see
// package replica, handoff.go).
func (k *Keeper) takeOver(ctx context.Context, partitions []int) (err error) {
	snaps, err := k.newestSnapshots(ctx, partitions)
	if err != nil {
		return err
	}
	t, err := k.awaitCome(ctx, partitions, snaps)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			k.Replica.AbandonHandOff(t)
		}
	}()
	if err := k.gather(ctx, t); errors.Is(err, replica.ErrLeftBehind) {
		return fmt.Errorf("%w: it was trimmed", replica.ErrCannotCatchUp)
	} else if err != nil {
		return err
	}
	held := k.Replica.HandedOff(t)
	if err := k.Replica.CommitHandOff(t); err != nil {
		return err
	}
	k.Flushes.Hurry() // the next cut takes them, and may be a flush interval away
	for _, one := range held {
		select {
		case err := <-one:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(takeTime):
			return errTooLong
		}
	}
	return nil
}

// newestSnapshots reads the newest good snapshot of some partitions, by partition.
func (k *Keeper) newestSnapshots(ctx context.Context, partitions []int) ([]*record.Snapshot, error) {
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

// awaitCome is step 1, once the follower is where the snapshots are.
func (k *Keeper) awaitCome(ctx context.Context, partitions []int, snaps []*record.Snapshot) (*replica.HandOff, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, takeTime, errTooLong)
	defer cancel()
	for {
		if t, ok := k.Replica.BeginHandOff(partitions, snaps); ok {
			return t, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(comePoll):
		}
	}
}

// gather is step 2.
func (k *Keeper) gather(ctx context.Context, t *replica.HandOff) error {
	first, _, _, err := k.Store.Bounds(ctx)
	if err != nil {
		return err
	}
	start, err := t.Start(first)
	if err != nil {
		return err
	}
	err = k.Store.Read(ctx, start, t.UpTo, func(sequence uint64, data []byte) error {
		return t.Follow(time.Now(), sequence, data, k.Lost.Source(ctx))
	})
	if err != nil {
		return err
	}
	return t.FollowRest(time.Now(), k.Lost.Source(ctx))
}
