package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/journal/backup"
	"github.com/weir-counter/weir/journal/offline"
	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/restore"
)

// Restore makes a data directory out of a backup (offline.Restore).
func Restore(ctx context.Context, r io.Reader, dir string) (backup.Info, error) {
	return offline.Restore(ctx, r, dir, fillDir)
}

// fillDir is offline.Fill.
func fillDir(ctx context.Context, engine *weir.Engine, dir string, of restore.Entry) error {
	j, err := Open(ctx, engine, Config{Dir: dir, FlushEvery: time.Millisecond, MaxBytes: 4 * backup.Unbounded}, nil)
	if err != nil {
		return err
	}
	err = restore.Policies(ctx, j.policies, of.Policies, true)
	if err == nil {
		err = j.merges.Record(ctx, record.JournalText(record.NewJournalID()), of)
	}
	if err := errors.Join(err, j.Close(ctx)); err != nil {
		return err
	}
	if j.checkpoints.InRound() {
		return fmt.Errorf("the snapshots were not written: %w", context.Cause(ctx))
	}
	return nil
}

// RestoreInto restores a backup into this journal while it is in use, on all nodes (restore.Target).
func (j *Journal) RestoreInto(ctx context.Context, r io.Reader, mode restore.Mode) (restore.Result, error) {
	return j.restores.Restore(ctx, r, mode)
}

// newRestores makes what restores backups into this journal.
func (j *Journal) newRestores() {
	j.restores = &restore.Target{
		Engine: j.engine, Replica: j.replica, Merges: j.merges, Policies: j.policies, Claims: &restore.Claims{Node: j.cfg.Join.Node, Log: j.log},
		Node: j.cfg.Join.Node, Dir: j.cfg.Dir, MaxBytes: j.cfg.MaxBytes, Log: j.log, Sync: j.Sync, HandOver: j.handOver,
	}
	if j.cfg.clustered() {
		j.restores.CatchUp = j.CatchUp
	}
}

// carry is how the data directory is made to fit.
func (cfg Config) carry(engine *weir.Engine) offline.Carry {
	return offline.Carry{
		Dir: cfg.Dir, Engine: engine, Clustered: cfg.clustered(), LeaveCluster: cfg.LeaveCluster, AcceptDamage: cfg.AcceptDamage, Shrink: cfg.ShrinkRetention, Log: cfg.Logger, Fill: fillDir,
	}
}

// finishCarry merges what the directory had as that of a node alone into the cluster's journal.
func (j *Journal) finishCarry(ctx context.Context) error {
	if j.cfg.Join.Waiting != nil {
		j.cfg.Join.Waiting("writes what this directory had as a node alone into the cluster's journal")
	}
	return offline.Finish(ctx, j.restores)
}
