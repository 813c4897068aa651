package offline

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
	"github.com/weir-counter/weir/journal/restore"
)

// Fill makes a data directory with all that an engine has, in snapshots. It remembers
// the backup that all is of.
type Fill func(ctx context.Context, engine *weir.Engine, dir string, of restore.Entry) error

// Restore makes a data directory out of a backup. dir must be empty, not be there, or be
// left by a Restore that was killed. All counts are loaded and audited first; where the backup is damaged or
// cut short, nothing is left behind. The directory is of a new origin, so that it
// and the one that was backed up can both go on.
func Restore(ctx context.Context, r io.Reader, dir string, fill Fill) (info backup.Info, err error) {
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
	if err := fill(ctx, engine, stage, restore.Entry{Journal: b.Info.Journal, Origins: b.Origins(), Taken: b.Info.Taken, Began: time.Now().UTC(), Policies: b.Info.Policies}); err != nil {
		return b.Info, err
	}
	return b.Info, datadir.Unstage(stage, dir)
}
