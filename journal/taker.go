package journal

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

// take takes partitions that are not held, from their snapshots and the journal (see
// package replica, handoff.go).
func (j *Journal) take(ctx context.Context, partitions []int) (err error) {
	snaps, err := j.newestSnapshots(ctx, partitions)
	if err != nil {
		return err
	}
	t, err := j.awaitCome(ctx, partitions, snaps)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			j.replica.AbandonHandOff(t)
		}
	}()
	if err := j.gather(ctx, t); errors.Is(err, replica.ErrLeftBehind) {
		return fmt.Errorf("%w: it was trimmed", replica.ErrCannotCatchUp)
	} else if err != nil {
		return err
	}
	held := j.replica.HandedOff(t)
	if err := j.replica.CommitHandOff(t); err != nil {
		return err
	}
	j.waiters.Hurry() // the next cut takes them, and may be a flush interval away
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
func (j *Journal) newestSnapshots(ctx context.Context, partitions []int) ([]*record.Snapshot, error) {
	snaps := make([]*record.Snapshot, j.engine.Config().Partitions)
	return snaps, parallel.Do(len(partitions), func(i int) error {
		list, _, err := j.store.SlotsOf(ctx, partitions[i])
		if err != nil {
			return err
		}
		for _, at := range list {
			snap, err := j.store.GetSnapshot(ctx, at)
			if err == nil {
				snaps[partitions[i]] = &snap
				return nil
			}
			if ctx.Err() != nil || stream.IsUnavailable(err) {
				return err
			}
			j.log.Warn("journal: could not read a snapshot; trying the next one", "partition", partitions[i], "error", err)
		}
		return nil
	})
}

// comePoll is how often the keeper looks how far the follower is.
const comePoll = 20 * time.Millisecond

// awaitCome is step 1, once the follower is where the snapshots are.
func (j *Journal) awaitCome(ctx context.Context, partitions []int, snaps []*record.Snapshot) (*replica.HandOff, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, takeTime, errTooLong)
	defer cancel()
	for {
		if t, ok := j.replica.BeginHandOff(partitions, snaps); ok {
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
func (j *Journal) gather(ctx context.Context, t *replica.HandOff) error {
	first, _, _, err := j.store.Bounds(ctx)
	if err != nil {
		return err
	}
	start, err := t.Start(first)
	if err != nil {
		return err
	}
	err = j.store.Read(ctx, start, t.UpTo, func(sequence uint64, data []byte) error {
		return t.Follow(time.Now(), sequence, data, j.lost.Source(ctx))
	})
	if err != nil {
		return err
	}
	return t.FollowRest(time.Now(), j.lost.Source(ctx))
}
