package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-counter/weir/journal/join"
)

// leavingDir is where a copy of a cluster node's files is while its backup is written: the
// server writes into what it opens, and the node may stay in the cluster after all.
const leavingDir = "leaving"

// backupOffline writes a backup of a directory that no server has open. Of a cluster's
// node it is what that one's replica has, which must be all, or Config.AcceptDamage set.
func backupOffline(ctx context.Context, dir string, m manifest, ofMany bool, cfg Config, w io.Writer) (err error) {
	from := dir
	if ofMany {
		from = filepath.Join(dir, leavingDir)
		if err := errors.Join(os.RemoveAll(from), os.Mkdir(from, 0o700)); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(from)) }()
		_, damaged, err := join.Inspect(filepath.Join(dir, serverDir), flushStream)
		if err == nil && len(damaged) > 0 && damaged[0].Index == "" && !cfg.AcceptDamage {
			err = fmt.Errorf("%w: %s: start it as a node of its cluster, which copies it from the others", errDamaged, damaged[0])
		}
		if err == nil {
			err = copyData(dir, from)
		}
		if err == nil {
			err = join.Alone(filepath.Join(from, serverDir))
		}
		if err != nil {
			return err
		}
	}
	engine, err := BackupInfo{Partitions: m.Partitions, RetentionS: m.RetentionS}.engine() // for its settings
	if err != nil {
		return err
	}
	j := &Journal{cfg: Config{Dir: from, Logger: cfg.Logger}.withDefaults(), engine: engine, life: life{m.Origin, m.Epoch}, ofMany: ofMany}
	j.log = j.cfg.Logger
	defer func() { err = errors.Join(err, j.release()) }()
	if j.server, err = startServer(ctx, Config{Dir: from, MaxBytes: unbounded, Logger: j.log}); err != nil {
		return err
	}
	var missing []Finding
	if j.store, missing, err = openStore(ctx, j.server, m, false); err != nil {
		return err
	}
	if j.store == nil && ofMany {
		return errors.New("this node does not keep the journal, which others do for it: start with the directory of one that does (weir verify tells), or take a backup of the running cluster: weir backup, weir restore")
	}
	if j.store == nil {
		return &DamageError{Findings: missing}
	}
	if err := j.lackOf(ctx, dir, m, ofMany); err != nil && !cfg.AcceptDamage {
		return fmt.Errorf("%w; to go on without the hits that may be missing, add --accept-damage", err)
	}
	return j.copyTo(ctx, w)
}

// lackOf says what others may have that this directory does not.
func (j *Journal) lackOf(ctx context.Context, dir string, m manifest, ofMany bool) error {
	first, last, _, err := j.store.bounds(ctx)
	if err != nil {
		return err
	}
	reached, err := readMark(dir)
	if err == nil && reached.stream > last {
		return fmt.Errorf("%w: messages %d to %d of the journal were acknowledged and are not in this directory: start this node once as it was, with the others", errDamaged, last+1, reached.stream)
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
		if origin == m.Origin || end.left || now.Sub(time.UnixMilli(end.at)) > forgetAfter || end.replaced(ends) || j.wasRemoved(ctx, origin, end.at) {
			continue
		}
		return fmt.Errorf("%w: node %s did not say that it stops, and may have newer hits than this directory: "+
			"start the cluster again, and stop its nodes in good order (SIGTERM), this one last, or remove that one: weir cluster remove %[2]s", errDamaged, end.node)
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
		if isRestoreName(end.node) {
			return fmt.Errorf("%w: backups were merged into this journal, and the list of them, %s, is kept by other nodes: the same hits could be counted a second time. "+
				"Leave with the directory of a node that keeps both, or take a backup of the running cluster: weir backup, weir restore", errDamaged, mergesBucket)
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
	lists, _, err := j.store.listSnapshots(ctx, j.engine.Config().Partitions)
	if err != nil {
		return nil, err
	}
	for _, list := range lists {
		if len(list) == 0 {
			continue
		}
		snap, err := j.store.getSnapshot(ctx, list[0])
		if err != nil {
			continue // the backup finds the one before
		}
		for _, at := range snap.positions {
			if at.at >= ends[at.origin].at {
				ends[at.origin] = end{at.node, at.at, at.left}
			}
		}
	}
	err = j.store.read(ctx, first, last, func(_ uint64, data []byte) error {
		if p, err := decodePart(data); err == nil && p.at >= ends[p.origin].at {
			ends[p.origin] = end{p.node, p.at, p.leaving}
		}
		return nil
	})
	return ends, err
}

// wasRemoved tells whether an origin was removed from the cluster, with all its hits until at.
func (j *Journal) wasRemoved(ctx context.Context, origin uint64, at int64) bool {
	kv, err := j.server.JetStream().KeyValue(ctx, removedBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) || err != nil {
		return false
	}
	entry, err := kv.Get(ctx, fmt.Sprintf("%016x", origin))
	if err != nil {
		return false
	}
	until, err := strconv.ParseInt(string(entry.Value()), 10, 64)
	return err == nil && at <= until
}

// entry is what a journal remembers of this backup.
func (s *spool) entry(node string) merge {
	return merge{Journal: s.info.Journal, Origins: s.origins, Taken: s.info.Taken, Node: node, Began: time.Now().UTC()}
}
