package journal

import (
	"context"
	"fmt"
	"io"

	"github.com/weir-counter/weir/journal/backup"
)

// Backup writes all that is counted to w, in one file that Restore takes: every
// hit that was counted before the call, and none of a flush that began after it.
// Hits go on meanwhile. It reads what is on disk, a partition or some messages
// at a time, and touches no counter. One backup is taken at a time; others wait.
//
// While it runs the journal is not trimmed. A backup that is so slow that the
// data directory would run full is ended with an error, and so it is by Close.
func (j *Journal) Backup(ctx context.Context, w io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := j.checkpoints.Pin(ctx, cancel); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	defer j.checkpoints.Unpin()
	if err := j.backup(ctx, w); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}

func (j *Journal) backup(ctx context.Context, w io.Writer) error {
	if err := j.Sync(ctx); err != nil {
		return err
	}
	cfg := j.engine.Config()
	return backup.Source{
		Store: j.store, Own: j.own, Cluster: j.cfg.clustered(), Partitions: cfg.Partitions, Retention: cfg.Retention, ClockSet: j.set.sets, Merged: j.merges.Origins, Policies: j.policies,
	}.WriteBackup(ctx, w)
}
