package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/journal/backup"
	"github.com/weir-counter/weir/journal/datadir"
	"github.com/weir-counter/weir/journal/record"
)

// Restore makes a data directory out of a backup. dir must be empty, not be there, or be
// left by a Restore that was killed. All counts are loaded and audited first; where the backup is damaged or
// cut short, nothing is left behind. The directory is of a new origin, so that it
// and the one that was backed up can both go on.
func Restore(ctx context.Context, r io.Reader, dir string) (info backup.Info, err error) {
	err = datadir.RefuseFilled(dir) // before the lock leaves a file in it
	isNew := errors.Is(err, fs.ErrNotExist)
	if err != nil && !isNew {
		return info, err
	}
	lock, err := datadir.LockDir(dir)
	if err != nil {
		return info, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if err := datadir.RefuseFilled(dir); err != nil { // nobody else can fill it any more
		return info, err
	}
	// Before anything is read, which may take long: should this process be killed, the
	// directory must not pass for a new one.
	stage := filepath.Join(dir, datadir.RestoreStage)
	defer func() {
		err = errors.Join(err, os.RemoveAll(stage))
		if err != nil {
			err = errors.Join(err, datadir.Discard(dir, isNew))
		}
	}()
	if err := datadir.BeginStage(dir, stage); err != nil {
		return info, err
	}
	b, err := backup.NewReader(r)
	if err != nil {
		return info, err
	}
	engine, err := weir.New(weir.Config{
		Partitions: b.Info.Partitions, Retention: time.Duration(b.Info.RetentionS) * time.Second,
		Memory: backup.Unbounded, Gather: true, Clock: weir.EventClock,
	})
	if err != nil {
		return info, fmt.Errorf("%w: section 0 of the backup: %w", record.ErrDamaged, err)
	}
	defer engine.Close()
	if err := b.Load(engine, nil); err != nil {
		return b.Info, err
	}
	if err := writeDir(ctx, engine, stage, merge{Journal: b.Info.Journal, Origins: b.Origins(), Taken: b.Info.Taken, Began: time.Now().UTC()}); err != nil {
		return b.Info, err
	}
	return b.Info, datadir.Unstage(stage, dir)
}

// writeDir makes a data directory with all that an engine has, in snapshots. It remembers
// the backup that all is of.
func writeDir(ctx context.Context, engine *weir.Engine, dir string, of merge) error {
	j, err := Open(ctx, engine, Config{Dir: dir, FlushEvery: time.Millisecond, MaxBytes: 4 * backup.Unbounded}, nil)
	if err != nil {
		return err
	}
	err = j.recordMerge(ctx, record.JournalText(record.NewJournalID()), of)
	if err := errors.Join(err, j.Close(ctx)); err != nil {
		return err
	}
	if j.checkpoints.InRound() {
		return fmt.Errorf("the snapshots were not written: %w", context.Cause(ctx))
	}
	return nil
}
