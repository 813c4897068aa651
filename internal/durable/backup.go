package durable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/backup"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/journal/checkpoint"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/units"
)

// Backup writes all that is counted to w, in one file that Restore takes: every
// hit that was counted before the call, and none of a flush that began after it.
// Hits go on meanwhile. It reads what is on disk, a partition or some messages
// at a time, and touches no counter. One backup is taken at a time; others wait.
//
// While it runs the journal is not trimmed. A backup that is so slow that the
// data directory would run full is ended with an error, and so it is by Close.
//
// While hits can't be written to the disk, those that wait in memory are in the backup of a node alone too. What the
// disk does not give within standstillMost ends it, with an error that says what is wrong with the disk.
func (j *Journal) Backup(ctx context.Context, w io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	to := &progressWriter{to: w}
	to.moved.Store(time.Now().UnixNano())
	watch := make(chan struct{})
	go func() {
		defer close(watch)
		j.endStandstill(ctx, cancel, to)
	}()
	err := j.pinnedBackup(ctx, cancel, to)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	cancel(nil)
	<-watch
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}

// standstillMost is how long a backup may write nothing while the journal can't be written.
const standstillMost = 20 * time.Second

// progressWriter is a writer that knows when something was written last.
type progressWriter struct {
	to    io.Writer
	moved atomic.Int64 // Unix ns
}

func (p *progressWriter) Write(piece []byte) (int, error) {
	n, err := p.to.Write(piece)
	p.moved.Store(time.Now().UnixNano())
	return n, err
}

// endStandstill ends a backup that waits for a disk that takes nothing.
func (j *Journal) endStandstill(ctx context.Context, end context.CancelCauseFunc, w *progressWriter) {
	concurrency.Every(ctx, time.Second, func() bool {
		wrong := j.stats.wrong.Load()
		stands := wrong != nil && time.Since(time.Unix(0, w.moved.Load())) > standstillMost
		if stands {
			end(fmt.Errorf("nothing came for %v: %w", standstillMost, j.whyNotWritten(*wrong)))
		}
		return !stands
	})
}

// whyNotWritten is what the disk says, where that is known, else wrong.
func (j *Journal) whyNotWritten(wrong error) error {
	if disk := (*checkpoint.DiskError)(nil); errors.As(wrong, &disk) {
		return disk
	}
	if err := checkpoint.TrySpace(j.cfg.Dir); err != nil {
		return err
	}
	return fmt.Errorf("the journal can't be written: %w", wrong)
}

func (j *Journal) pinnedBackup(ctx context.Context, cancel context.CancelCauseFunc, w io.Writer) error {
	standsStill := func() bool { return !j.cfg.clustered() && j.stats.failing() }
	if err := j.checkpoints.Pin(ctx, cancel, standsStill); err != nil {
		return err
	}
	defer j.checkpoints.Unpin()
	s, err := j.momentWithHistory(ctx)
	if err != nil {
		return err
	}
	if past, is := s.History.(io.Closer); is {
		defer past.Close() // it was read only
	}
	cfg := j.engine.Config()
	s.Store, s.Own, s.Cluster, s.Partitions, s.Retention = j.store, j.own, j.cfg.clustered(), cfg.Partitions, cfg.Retention
	s.ClockSet, s.Merged, s.Policies = j.replica.ClockSets, j.merges.Origins, j.policies
	return s.WriteBackup(ctx, w)
}

// HistoryCopy has a history stop where it is, calls moment, goes on up to the message that moment returns, and returns a copy.
type HistoryCopy func(ctx context.Context, moment func(ctx context.Context) (last uint64, err error)) (io.ReadCloser, error)

// CopyHistory has backups contain a history, from now on. It is called before any backup.
func (j *Journal) CopyHistory(f HistoryCopy) { j.history = f }

// momentWithHistory returns the last message of a backup, with the history up to there. A backup without history is better than none.
func (j *Journal) momentWithHistory(ctx context.Context) (s backup.Source, err error) {
	if j.history != nil {
		past, err := j.history(ctx, func(ctx context.Context) (uint64, error) {
			if s, err = j.moment(ctx); err == nil && len(s.Unwritten) > 0 {
				err = errors.New("the journal can't be written")
			}
			return s.Last, err
		})
		if err == nil {
			s.History = past
			return s, nil
		}
		if ctx.Err() != nil {
			return s, context.Cause(ctx)
		}
		j.log.Warn("the backup has no history, because it could not be copied", "error", err)
	}
	return j.moment(ctx)
}

// moment returns the last message of the journal now, and what could not be written into it.
func (j *Journal) moment(ctx context.Context) (s backup.Source, err error) {
	if s.Unwritten, err = j.syncOrUnwritten(ctx); err == nil {
		_, s.Last, err = j.Bounds(ctx)
	}
	return s, err
}

// syncOrUnwritten is Sync; while the flushes of a node alone can't be written, it returns them.
func (j *Journal) syncOrUnwritten(ctx context.Context) (unwritten [][]byte, err error) {
	group, asks := j.waiters.Join(), j.unwrote
	if j.cfg.clustered() {
		asks = nil
	}
	answer := make(chan [][]byte, 1)
	select {
	case <-group.Done:
		return nil, group.Err
	case asks <- answer:
		return <-answer, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Restore makes a data directory out of a backup (backup.RestoreDirectory). It calls adopt with the history of the backup, once all hits
// of the directory's journal are in snapshots. With a nil adopt the history is left behind.
func Restore(ctx context.Context, r io.Reader, dir string, adopt func(ctx context.Context, file string, j Messages, taken time.Time) error) (backup.Info, error) {
	return backup.RestoreDirectory(ctx, r, dir, func(ctx context.Context, e *engine.Engine, dir string, entry backup.RestoreEntry) error {
		return fillWith(ctx, e, dir, entry, func(j *Journal) error {
			if entry.History == "" || adopt == nil {
				return nil
			}
			j.checkpoints.StartRound()
			j.finishRound(ctx)
			return adopt(ctx, entry.History, j.Messages(), entry.Taken)
		})
	})
}

func fillDir(ctx context.Context, e *engine.Engine, dir string, entry backup.RestoreEntry) error {
	return fillWith(ctx, e, dir, entry, func(*Journal) error { return nil })
}

func fillWith(ctx context.Context, e *engine.Engine, dir string, entry backup.RestoreEntry, more func(j *Journal) error) error {
	j, err := Open(ctx, e, Config{Dir: dir, FlushEvery: time.Millisecond, MaxBytes: 4 * backup.Unbounded}, nil)
	if err != nil {
		return err
	}
	err = backup.RestorePolicies(ctx, j.policies, entry.Policies, true)
	if err == nil {
		err = j.merges.Record(ctx, record.JournalText(record.NewJournalID()), entry)
	}
	if err == nil {
		err = more(j)
	}
	if err := errors.Join(err, j.Close(ctx)); err != nil {
		return err
	}
	if j.checkpoints.InRound() {
		return fmt.Errorf("the snapshots were not written: %w", context.Cause(ctx))
	}
	return nil
}

// Restore restores a backup into this journal while it is in use, on all nodes (backup.RestoreTarget).
func (j *Journal) Restore(ctx context.Context, r io.Reader, mode api.RestoreMode) (api.Restored, error) {
	return j.restores.Restore(ctx, r, mode)
}

func (j *Journal) newRestores() {
	j.restores = &backup.RestoreTarget{
		Engine: j.engine, Replica: j.replica, Merges: j.merges, Policies: j.policies, Claims: &backup.RestoreClaims{Node: j.cfg.Join.Node, Log: j.log},
		Node: j.cfg.Join.Node, Dir: j.cfg.Dir, MaxBytes: j.cfg.MaxBytes, Log: j.log, Sync: j.Sync, HandOver: j.handOver, HandOverWithSpace: j.handOverWithSpace,
		HoldSpace: j.holdSpace,
	}
	if j.cfg.clustered() {
		j.restores.CatchUp = j.CatchUp
	}
}

// spaceTime bounds how long a backup that replaces all hits waits until the journal is trimmed.
const spaceTime = time.Minute

// holdSpace waits until the journal has space for so many bytes at once. It keeps the journal from being trimmed beyond them until free is
// called, or until held ends: with ctx, or when the journal must be trimmed.
func (j *Journal) holdSpace(ctx context.Context, bytes int64) (held context.Context, free func(), err error) {
	if bytes > j.space.TakesMost() {
		return nil, nil, fmt.Errorf("the backup takes up to %s of the journal at once, which has space for %s: nothing was changed; raise --max-disk",
			units.FormatSize(bytes), units.FormatSize(j.space.TakesMost()))
	}
	full := fmt.Errorf("the backup takes up to %s of the journal, which has %s of at most %s: nothing was changed; retry when it is trimmed, or raise --max-disk",
		units.FormatSize(bytes), units.FormatSize(j.space.Retained()), units.FormatSize(j.space.TakesMost()))
	waiting, stop := context.WithTimeoutCause(ctx, spaceTime, full)
	defer stop()
	if err := j.awaitSpace(waiting, bytes, j.checkpoints.StartRound); err != nil {
		return nil, nil, err
	}
	if j.cfg.clustered() { // snapshots begin before what is not complete
		return ctx, func() {}, nil
	}
	held, cancel := context.WithCancelCause(ctx)
	if err := j.checkpoints.Pin(ctx, cancel, func() bool { return false }); err != nil {
		cancel(nil)
		return nil, nil, err
	}
	return held, func() { j.checkpoints.Unpin(); cancel(nil) }, nil
}

// recoverEvery is how often a node looks whether a backup was to replace all hits and nobody writes it any more.
const recoverEvery = 2 * time.Second

// runRecovery ends replacements that were interrupted, by this process's life before or by another node, until ctx is done.
func (j *Journal) runRecovery(ctx context.Context) {
	looked := false
	concurrency.Repeat(ctx, recoverEvery, func() {
		if !looked || len(j.replica.Undecided()) > 0 {
			err := j.restores.Recover(ctx)
			if looked = err == nil; err != nil && !errors.Is(err, backup.ErrRestoring) && ctx.Err() == nil {
				j.log.Warn("journal: could not look for an interrupted restore; will retry", "error", err)
			}
		}
	})
}

// carry is how the data directory is made to fit.
func (cfg Config) carry(e *engine.Engine) backup.Carry {
	return backup.Carry{
		Dir: cfg.Dir, Engine: e, Clustered: cfg.clustered(), LeaveCluster: cfg.LeaveCluster, AcceptDamage: cfg.AcceptDamage, Shrink: cfg.ShrinkRetention, Log: cfg.Logger, Fill: fillDir,
	}
}

// finishCarry merges what the directory had as a single node's into the cluster's journal.
func (j *Journal) finishCarry(ctx context.Context) error {
	if j.cfg.Join.Waiting != nil {
		j.cfg.Join.Waiting("writing the counts of this former single node into the cluster's journal")
	}
	return backup.FinishCarry(ctx, j.restores)
}
