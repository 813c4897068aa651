package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-counter/weir/cluster/join"
	"github.com/weir-counter/weir/cluster/member"
	"github.com/weir-counter/weir/journal/backup"
	"github.com/weir-counter/weir/journal/datadir"
	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/replica"
	"github.com/weir-counter/weir/journal/stream"
)

// leavingDir is where a copy of a cluster node's files is while its backup is written: the
// server writes into what it opens, and the node may stay in the cluster after all.
const leavingDir = "leaving"

// backupOffline writes a backup of a directory that no server has open. Of a cluster's
// node it is what that one's replica has, which must be all, or Config.AcceptDamage set.
func backupOffline(ctx context.Context, dir string, m datadir.Manifest, ofMany bool, cfg Config, w io.Writer) (err error) {
	from := dir
	if ofMany {
		from = filepath.Join(dir, leavingDir)
		if err := errors.Join(os.RemoveAll(from), os.Mkdir(from, 0o700)); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(from)) }()
		_, damaged, err := join.Inspect(filepath.Join(dir, datadir.ServerDir), stream.FlushStream)
		if err == nil && len(damaged) > 0 && damaged[0].Index == "" && !cfg.AcceptDamage {
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
	engine, err := backup.Info{Partitions: m.Partitions, RetentionS: m.RetentionS}.Engine() // for its settings
	if err != nil {
		return err
	}
	j := &Journal{cfg: Config{Dir: from, Logger: cfg.Logger}.withDefaults(), engine: engine, life: record.Incarnation{Origin: m.Origin, Epoch: m.Epoch}, ofMany: ofMany}
	j.log = j.cfg.Logger
	j.set.begin(m.ClockSet, 0)
	defer func() { err = errors.Join(err, j.release()) }()
	if j.server, err = startServer(ctx, Config{Dir: from, MaxBytes: backup.Unbounded, Logger: j.log}); err != nil {
		return err
	}
	var missing []record.Finding
	if j.store, missing, err = stream.Open(ctx, j.server.JetStream(), identityOf(m), j.server.Replicas, false); err != nil {
		return err
	}
	if j.store == nil && ofMany {
		return errors.New("this node does not keep the journal, which others do for it: start with the directory of one that does (weir verify tells), or take a backup of the running cluster: weir backup, weir restore")
	}
	if j.store == nil {
		return &record.DamageError{Findings: missing}
	}
	if err := j.lackOf(ctx, dir, m, ofMany); err != nil && !cfg.AcceptDamage {
		return fmt.Errorf("%w; to go on without the hits that may be missing, add --accept-damage", err)
	}
	return j.copyTo(ctx, w)
}

// lackOf says what others may have that this directory does not.
func (j *Journal) lackOf(ctx context.Context, dir string, m datadir.Manifest, ofMany bool) error {
	first, last, _, err := j.store.Bounds(ctx)
	if err != nil {
		return err
	}
	reached, err := datadir.ReadWatermark(dir)
	if err == nil && reached.Stream > last {
		return fmt.Errorf("%w: messages %d to %d of the journal were acknowledged and are not in this directory: start this node once as it was, with the others", record.ErrDamaged, last+1, reached.Stream)
	}
	if !ofMany {
		return nil
	}
	ends, err := j.ends(ctx, first, last)
	if err != nil {
		return err
	}
	if err := j.lackOfMerges(ctx, ends); err != nil {
		return err
	}
	now := time.Now()
	for origin, end := range ends {
		if origin == m.Origin || end.left || now.Sub(time.UnixMilli(end.at)) > replica.ForgetAfter || end.replaced(ends) || member.WasRemoved(ctx, j.server.JetStream(), origin, end.at) {
			continue
		}
		return fmt.Errorf("%w: node %s did not say that it stops, and may have newer hits than this directory: "+
			"start the cluster again, and stop its nodes in good order (SIGTERM), this one last, or remove that one: weir cluster remove %[2]s", record.ErrDamaged, end.node)
	}
	return nil
}

// lackOfMerges says whether backups were merged and their list is not in this directory:
// of more than three nodes, others may keep it than keep the journal. Without it, the same
// hits would be taken a second time, from another backup of the same journal.
func (j *Journal) lackOfMerges(ctx context.Context, ends map[uint64]end) error {
	_, err := j.server.JetStream().KeyValue(ctx, mergesBucket)
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return err
	}
	for _, end := range ends {
		if record.IsBackupName(end.node) {
			return fmt.Errorf("%w: backups were merged into this journal, and the list of them, %s, is kept by other nodes: the same hits could be counted a second time. "+
				"Leave with the directory of a node that keeps both, or take a backup of the running cluster: weir backup, weir restore", record.ErrDamaged, mergesBucket)
		}
	}
	return nil
}

// end is what the journal has last of an origin.
type end struct {
	node string
	at   int64
	left bool
}

// replaced tells whether a node of the same name goes on in another directory.
func (e end) replaced(all map[uint64]end) bool {
	for _, other := range all {
		if other.node == e.node && other.at > e.at {
			return true
		}
	}
	return false
}

// ends are those of all origins.
func (j *Journal) ends(ctx context.Context, first, last uint64) (map[uint64]end, error) {
	ends := map[uint64]end{}
	lists, _, err := j.store.ListSnapshots(ctx, j.engine.Config().Partitions)
	if err != nil {
		return nil, err
	}
	for _, list := range lists {
		if len(list) == 0 {
			continue
		}
		snap, err := j.store.GetSnapshot(ctx, list[0])
		if err != nil {
			continue // the backup finds the one before
		}
		for _, at := range snap.Positions {
			if at.At >= ends[at.Origin].at {
				ends[at.Origin] = end{at.Node, at.At, at.Left}
			}
		}
	}
	err = j.store.Read(ctx, first, last, func(_ uint64, data []byte) error {
		if p, err := record.DecodePart(data); err == nil && p.At >= ends[p.Origin].at {
			ends[p.Origin] = end{p.Node, p.At, p.Leaving}
		}
		return nil
	})
	return ends, err
}
