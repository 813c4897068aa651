package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/cluster/join"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/journal/backup"
	"github.com/weir-counter/weir/journal/datadir"
)

// A data directory becomes another in place: that of a node alone becomes the first node
// of a cluster, that of a cluster's node becomes one alone, and either may get another
// retention or another number of partitions. All of it goes by a backup of what the
// directory has, so that there is one way and not four:
//
//  1. carriedFile is written: a backup of all that the directory has, checked.
//  2. The server's files are moved aside, to beforeDir.
//  3. Alone: a directory is made of the backup under RestoreStage, and moved here, its
//     manifest last. In a cluster: a new manifest is written; the node joins empty, and
//     merges the backup into the journal (RestoreInto), where it counts once.
//  4. carriedFile is removed, and then beforeDir.
//
// A start that was cut off anywhere goes on from what it finds: whether there is a
// carriedFile, whether the manifest's origin is still that of the backup, and whose files
// the server's are. Until step 4, which follows when the new journal has all on its
// disks, in a cluster on those of a majority, the old files are there.
const (
	// carriedFile is what a directory had before it became another: a backup.
	carriedFile = "carried.backup"
	// beforeDir is the server's files of before.
	beforeDir = datadir.ServerDir + ".before"
)

// carry is a directory that is opened.
type carry struct {
	*Journal
	dir     string
	m       datadir.Manifest
	carried *backup.Info // nil: there is no carriedFile
	old     bool         // the manifest is still that of the backup

	cluster, node string // whose files the server's are
	filled        bool
	before        bool // beforeDir is there
}

// carryOver makes the directory fit the configuration, and returns its manifest, which may be a
// new one. With pending, the hits of carriedFile are to be merged once this node has joined.
func (j *Journal) carryOver(ctx context.Context, m datadir.Manifest) (_ datadir.Manifest, pending bool, err error) {
	c := carry{Journal: j, dir: j.cfg.Dir, m: m}
	if err := c.look(); err != nil {
		return m, false, err
	}
	if j.cfg.clustered() {
		pending, err = c.intoCluster(ctx)
	} else {
		err = c.alone(ctx)
	}
	return c.m, pending, err
}

// look finds how far an earlier start came.
func (c *carry) look() (err error) {
	if err := os.Remove(filepath.Join(c.dir, spoolFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if c.cluster, c.node, c.filled, err = join.Owner(filepath.Join(c.dir, datadir.ServerDir)); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if _, err := os.Lstat(filepath.Join(c.dir, beforeDir)); err == nil {
		c.before = true
	}
	b, err := (&backup.Spool{Path: filepath.Join(c.dir, carriedFile)}).Open()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return os.RemoveAll(filepath.Join(c.dir, beforeDir))
	case err != nil:
		return fmt.Errorf("journal: %s: %w", filepath.Join(c.dir, carriedFile), err)
	}
	defer b.Close()
	c.carried, c.old = &b.Info, b.Info.Origin == c.m.Origin
	return nil
}

// intoCluster is carryOver of a node of a cluster.
func (c *carry) intoCluster(ctx context.Context) (pending bool, err error) {
	ofAlone := c.filled && c.node == ""
	switch {
	case c.carried != nil && !c.old && ofAlone: // a change that came to its end, and was not cleared away
		if err := c.clear(); err != nil {
			return false, err
		}
	case c.carried != nil && !c.old:
		return true, nil
	case c.carried != nil && c.filled && !ofAlone: // it was to leave the cluster, and stays
		return false, c.clear()
	}
	if c.m.Epoch == 0 || !ofAlone && c.carried == nil {
		return false, nil
	}
	if c.carried == nil {
		c.log.Warn("journal: this directory belonged to a single node; converting it into a cluster node, with all its counts")
		if err := c.write(ctx, false); err != nil {
			return false, err
		}
	}
	if err := c.setAside(); err != nil {
		return false, err
	}
	return true, c.begin(datadir.NewManifest(c.engine.Config()))
}

// alone is carryOver of a node that is alone.
func (c *carry) alone(ctx context.Context) error {
	if c.carried != nil && !c.old {
		if c.node == "" && c.filled {
			return c.clear()
		}
		return fmt.Errorf("data directory %s is becoming a node of a cluster: start it with the --cluster, --nats and --node that it was started with, until it has; "+
			"to have it back as it was before, run weir restore %s --data DIR, with another DIR", c.dir, filepath.Join(c.dir, carriedFile))
	}
	if c.node != "" && !c.cfg.LeaveCluster {
		return fmt.Errorf("data directory %s belongs to node %s of cluster %s: start it with --cluster %[3]s --node %[2]s; to make it a node alone with all counts of the cluster, "+
			"stop all other nodes first and start it with --leave-cluster", c.dir, c.node, c.cluster)
	}
	fits := c.m.Fits(c.engine.Config()) == nil
	switch {
	case c.m.Epoch == 0 && c.carried == nil:
		if fits || c.filled {
			return nil
		}
		return c.begin(datadir.NewManifest(c.engine.Config())) // it never had a hit
	case c.node == "" && c.filled && fits && !c.before: // as it is; or it was to become another, and stays
		return c.clear()
	case c.carried == nil && !c.filled:
		return nil // damage, which the start finds
	case c.carried == nil:
		c.sayChange()
		if err := c.write(ctx, c.node != ""); err != nil {
			return err
		}
	}
	if err := c.setAside(); err != nil {
		return err
	}
	if err := c.restage(ctx); err != nil {
		return err
	}
	return c.clear()
}

func (c *carry) sayChange() {
	was, is := time.Duration(c.m.RetentionS)*time.Second, c.engine.Config().Retention
	attrs := []any{"partitions", c.engine.Config().Partitions, "before", c.m.Partitions, "retention", is, "retention before", was}
	if c.node != "" {
		c.log.Warn("journal: this directory belonged to a cluster node; converting it into a single node", attrs...)
	} else {
		c.log.Warn("journal: rewriting the data directory with new settings", attrs...)
	}
	if is < was {
		c.log.Warn("journal: the retention is shorter now; dropping older hits", "older than", is)
	}
}

// write is step 1.
func (c *carry) write(ctx context.Context, ofMany bool) error {
	path := filepath.Join(c.dir, carriedFile)
	what := fmt.Errorf("journal: what the data directory has can't be carried over, and it was left as it is")
	file, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return errors.Join(what, err)
	}
	err = backupOffline(ctx, c.dir, c.m, ofMany, c.cfg, file)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = c.check(ctx, path+".new")
	}
	if err != nil {
		return errors.Join(what, err, os.Remove(path+".new"))
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return datadir.SyncDir(c.dir)
}

// check reads a backup as a restore will.
func (c *carry) check(ctx context.Context, path string) error {
	s, err := backup.CheckSpool(ctx, path)
	if err != nil {
		return err
	}
	return s.Each(ctx, func(*weir.Engine, replication.Content) error { return nil }, func([][]byte) error { return nil })
}

// setAside is step 2. Files that are here beside those of before are of a step 3 that was
// cut off.
func (c *carry) setAside() error {
	from, to := filepath.Join(c.dir, datadir.ServerDir), filepath.Join(c.dir, beforeDir)
	_, err := os.Lstat(to)
	switch {
	case err == nil:
		err = os.RemoveAll(from)
	case errors.Is(err, fs.ErrNotExist):
		if err = os.Rename(from, to); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return errors.Join(err, datadir.SyncDir(c.dir))
}

// begin is step 3 in a cluster.
func (c *carry) begin(m datadir.Manifest) error {
	if err := os.Remove(filepath.Join(c.dir, datadir.WatermarkFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := m.Save(c.dir); err != nil {
		return fmt.Errorf("journal: manifest: %w", err)
	}
	c.m = m
	return nil
}

// restage is step 3 alone.
func (c *carry) restage(ctx context.Context) error {
	s, err := backup.CheckSpool(ctx, filepath.Join(c.dir, carriedFile))
	if err != nil {
		return err
	}
	engine, err := weir.New(weir.Config{
		Partitions: c.engine.Config().Partitions, Retention: c.engine.Config().Retention, Memory: backup.Unbounded, Gather: true, Clock: weir.EventClock,
	})
	if err != nil {
		return err
	}
	defer engine.Close()
	if err := s.PourInto(ctx, engine); err != nil {
		return err
	}
	stage := filepath.Join(c.dir, datadir.RestoreStage)
	if err := errors.Join(os.RemoveAll(stage), os.Mkdir(stage, 0o700)); err != nil {
		return err
	}
	if err := writeDir(ctx, engine, stage, entryOf(s, "")); err != nil {
		return errors.Join(err, os.RemoveAll(stage))
	}
	if err := datadir.Unstage(stage, c.dir); err != nil {
		return err
	}
	if err := os.RemoveAll(stage); err != nil {
		return err
	}
	c.m, _, err = datadir.LoadManifest(c.dir)
	return err
}

// clear is step 4.
func (c *carry) clear() error {
	for _, name := range []string{carriedFile + ".new", carriedFile} {
		if err := os.Remove(filepath.Join(c.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	c.carried = nil
	return errors.Join(datadir.SyncDir(c.dir), os.RemoveAll(filepath.Join(c.dir, beforeDir)), os.RemoveAll(filepath.Join(c.dir, datadir.RestoreStage)))
}

// takeCarried merges what the directory had into the cluster's journal, and returns when
// that is done: step 4 of a cluster follows.
func (j *Journal) takeCarried(ctx context.Context) error {
	if j.cfg.Join.Waiting != nil {
		j.cfg.Join.Waiting("writes what this directory had as a node alone into the cluster's journal")
	}
	s, err := backup.CheckSpool(ctx, filepath.Join(j.cfg.Dir, carriedFile))
	if err != nil {
		return err
	}
	ctx, free, err := j.awaitRestoreClaim(ctx)
	if err != nil {
		return err
	}
	defer free()
	if _, err := j.restoreSpool(ctx, s, Merge); err != nil {
		return err
	}
	return (&carry{Journal: j, dir: j.cfg.Dir}).clear()
}

// claimCarried refuses a cluster that has grown from another directory.
func (j *Journal) claimCarried(ctx context.Context) error {
	b, err := (&backup.Spool{Path: filepath.Join(j.cfg.Dir, carriedFile)}).Open()
	if err != nil {
		return err
	}
	defer b.Close()
	return j.claimGrown(ctx, b.Info.Journal)
}
