package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-counter/weir/internal/cluster/kv"
	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/journal/checkpoint"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/stream"
)

// Fill makes a data directory with all that an engine has, in snapshots. It remembers
// the backup that all is of.
type Fill func(ctx context.Context, engine *engine.Engine, dir string, of RestoreEntry) error

// RestoreDirectory makes a data directory out of a backup. dir must be empty, not be there, or be
// left by a Restore that was killed. All counts are loaded and audited first; where the backup is damaged or
// cut short, nothing is left behind. The directory is of a new origin, so that it
// and the one that was backed up can both go on.
func RestoreDirectory(ctx context.Context, r io.Reader, dir string, fill Fill) (info Info, err error) {
	err = checkpoint.RefuseFilled(dir) // before the lock leaves a file in it
	isNew := errors.Is(err, fs.ErrNotExist)
	if err != nil && !isNew {
		return info, err
	}
	lock, err := checkpoint.LockDirectory(dir)
	if err != nil {
		return info, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if err := checkpoint.RefuseFilled(dir); err != nil { // nobody else can fill it any more
		return info, err
	}
	// Before anything is read, which may take long: should this process be killed, the
	// directory must not pass for a new one.
	stage := filepath.Join(dir, checkpoint.RestoreStage)
	defer func() {
		err = errors.Join(err, os.RemoveAll(stage))
		if err != nil {
			err = errors.Join(err, checkpoint.DiscardDirectory(dir, isNew))
		}
	}()
	if err := checkpoint.BeginStage(dir, stage); err != nil {
		return info, err
	}
	b, err := NewReader(r)
	if err != nil {
		return info, err
	}
	engine, err := newEngine(b.Info.Partitions, b.Info.RetentionS, nil)
	if err != nil {
		return info, fmt.Errorf("%w: section 0 of the backup: %w", record.ErrDamaged, err)
	}
	defer engine.Close()
	if err := b.Load(engine, nil); err != nil {
		return b.Info, err
	}
	if err := fill(ctx, engine, stage, RestoreEntry{Journal: b.Info.Journal, Origins: b.Origins(), Taken: b.Info.Taken, Began: time.Now().UTC(), Policies: b.Info.Policies}); err != nil {
		return b.Info, err
	}
	return b.Info, checkpoint.Unstage(stage, dir)
}

// leavingDir has a copy of a cluster node's files while its backup is written. The
// server writes into what it opens, and the node may stay in the cluster after all.
const leavingDir = "leaving"

// writeBackup writes a backup of the directory, which no server has open. Of a cluster's
// node it is what that one's replica has, which must be all, or AcceptDamage set.
func (c *Conversion) writeBackup(ctx context.Context, w io.Writer, ofMany bool) (err error) {
	dir, m, from := c.Dir, c.m, c.Dir
	if ofMany {
		from = filepath.Join(dir, leavingDir)
		if err := errors.Join(os.RemoveAll(from), os.Mkdir(from, 0o700)); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(from)) }()
		_, damaged, err := transport.Inspect(filepath.Join(dir, checkpoint.ServerDir), stream.FlushStream)
		if err == nil && len(damaged) > 0 && damaged[0].Index == "" && !c.AcceptDamage {
			err = fmt.Errorf("%w: %s: start it as a node of its cluster, which copies it from the others", record.ErrDamaged, damaged[0])
		}
		if err == nil {
			err = checkpoint.CopyDirectory(dir, from)
		}
		if err == nil {
			err = transport.Alone(filepath.Join(from, checkpoint.ServerDir))
		}
		if err != nil {
			return err
		}
	}
	d, missing, err := open(ctx, from, m, c.Log)
	if err != nil {
		return err
	}
	defer d.close()
	if d.store == nil && ofMany {
		return errors.New("this node does not keep the journal, which others do for it: start with the directory of one that does (weir verify tells), or take a backup of the running cluster: weir backup, weir restore")
	}
	if d.store == nil {
		return &record.DamageError{Findings: missing}
	}
	if err := d.lackOf(ctx, dir, m, ofMany); err != nil && !c.AcceptDamage {
		return fmt.Errorf("%w; to go on without the hits that may be missing, add --accept-damage", err)
	}
	return Source{
		Store: d.store, Own: record.Incarnation{Origin: m.Origin, Epoch: m.Epoch}, Cluster: ofMany, Partitions: m.Partitions, Retention: time.Duration(m.RetentionS) * time.Second,
		ClockSet: func() record.ClockSets { return m.ClockSet }, Merged: (&Merges{JetStream: d.server.JetStream()}).Origins,
		Policies: &kv.Document{JetStream: d.server.JetStream()},
	}.WriteBackup(ctx, w)
}

// directory is one whose streams are read, by a server of a node alone.
type directory struct {
	server *transport.Node
	store  *stream.Store // nil: streams are missing
}

// readyTimeout bounds the start of the server.
const readyTimeout = 30 * time.Second

// open starts a server on the files of a directory. Without all streams the directory has no store,
// and missing says which.
func open(ctx context.Context, dir string, m checkpoint.Manifest, log *slog.Logger) (d *directory, missing []record.Finding, err error) {
	starting, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	server, err := transport.Open(starting, transport.Config{Dir: filepath.Join(dir, checkpoint.ServerDir), MaxBytes: Unbounded, Logger: log, Unbroken: stream.FlushStream})
	if err != nil {
		return nil, nil, err
	}
	store, missing, err := stream.Open(ctx, server.JetStream(), stream.Identity{Journal: m.Journal, Partitions: m.Partitions, RetentionS: m.RetentionS}, server.Replicas, false, log)
	if err != nil {
		server.Close()
		return nil, nil, err
	}
	return &directory{server, store}, missing, nil
}

func (d *directory) close() { d.server.Close() }
