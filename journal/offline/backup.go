package offline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-counter/weir/cluster/document"
	"github.com/weir-counter/weir/cluster/join"
	"github.com/weir-counter/weir/journal/backup"
	"github.com/weir-counter/weir/journal/datadir"
	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/restore"
	"github.com/weir-counter/weir/journal/stream"
)

// leavingDir is where a copy of a cluster node's files is while its backup is written: the
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
		_, damaged, err := join.Inspect(filepath.Join(dir, datadir.ServerDir), stream.FlushStream)
		if err == nil && len(damaged) > 0 && damaged[0].Index == "" && !c.AcceptDamage {
			err = fmt.Errorf("%w: %s: start it as a node of its cluster, which copies it from the others", record.ErrDamaged, damaged[0])
		}
		if err == nil {
			err = datadir.Copy(dir, from)
		}
		if err == nil {
			err = join.Alone(filepath.Join(from, datadir.ServerDir))
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
	return backup.Source{
		Store: d.store, Own: record.Incarnation{Origin: m.Origin, Epoch: m.Epoch}, Cluster: ofMany, Partitions: m.Partitions, Retention: time.Duration(m.RetentionS) * time.Second,
		ClockSet: func() record.ClockSets { return m.ClockSet }, Merged: (&restore.Merges{JetStream: d.server.JetStream()}).Origins,
		Policies: &document.Document{JetStream: d.server.JetStream()},
	}.WriteBackup(ctx, w)
}
