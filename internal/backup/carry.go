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

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/kv"
	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/files"
	"github.com/weir-counter/weir/internal/journal/checkpoint"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/stream"
	"github.com/weir-counter/weir/internal/units"
)

// A data directory changes in place: the directory of a single node becomes one of a cluster's node, or the reverse, or it gets another
// retention or another number of partitions. Each change goes by a backup of what the directory has:
//
//  1. CarriedFile is written: a backup of all that the directory has, checked.
//  2. The server's files are moved aside, to BeforeDir.
//  3. Alone: a directory is made of the backup under RestoreStage, and moved here, its
//     manifest last. In a cluster: a new manifest is written; the node joins empty, and
//     merges the backup into the journal (RestoreTarget), where it counts once.
//  4. CarriedFile is removed, and then BeforeDir.
//
// A start that was cut off anywhere goes on from what it finds: whether there is a
// CarriedFile, whether the manifest still has the origin of the backup, and whose files
// the server's are. The old files are there until step 4. It follows when the new journal has all on its disks, in a cluster on the disks of a
// majority.
const (
	// CarriedFile is a backup of what a directory had before it was converted.
	CarriedFile = "carried.backup"
	// BeforeDir has the server's files from before that.
	BeforeDir = checkpoint.ServerDir + ".before"
)

// Carry is how a directory is to be opened.
type Carry struct {
	Dir          string
	Engine       *engine.Engine // whose settings the directory is to have
	Clustered    bool           // it is to be a node of a cluster
	LeaveCluster bool           // a node of a cluster is to become one alone
	AcceptDamage bool           // also where hits may be missing
	Shrink       bool           // also to a shorter retention, which drops hits
	Log          *slog.Logger
	Fill         Fill
}

// Conversion is a directory that is opened, on its way to become another: its methods Write, SetAside,
// Begin and Restage are steps 1 to 3.
type Conversion struct {
	Carry
	m       checkpoint.Manifest
	carried *Info // nil: there is no CarriedFile
	old     bool  // the manifest still has the origin of the backup

	cluster, node string // whose files the server's are
	filled        bool
	before        bool // BeforeDir is there
}

// Convert returns the conversion of a directory with that manifest, at its beginning.
func (to Carry) Convert(m checkpoint.Manifest) *Conversion { return &Conversion{Carry: to, m: m} }

// Over makes the directory fit the configuration, and returns its manifest, which may be a
// new one. With pending, the hits of CarriedFile are to be merged once this node has joined.
func (to Carry) Over(ctx context.Context, m checkpoint.Manifest) (_ checkpoint.Manifest, pending bool, err error) {
	c := to.Convert(m)
	if err := c.look(); err != nil {
		return m, false, err
	}
	if c.Clustered {
		pending, err = c.intoCluster(ctx)
	} else {
		err = c.overSingle(ctx)
	}
	return c.m, pending, err
}

// look finds how far an earlier start came.
func (c *Conversion) look() (err error) {
	if err := removeFiles(c.Dir, SpoolFile); err != nil {
		return err
	}
	if c.cluster, c.node, c.filled, err = transport.Owner(filepath.Join(c.Dir, checkpoint.ServerDir)); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if _, err := os.Lstat(filepath.Join(c.Dir, BeforeDir)); err == nil {
		c.before = true
	}
	b, err := (&Spool{Path: filepath.Join(c.Dir, CarriedFile)}).Open()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return os.RemoveAll(filepath.Join(c.Dir, BeforeDir))
	case err != nil:
		return fmt.Errorf("journal: %s: %w", filepath.Join(c.Dir, CarriedFile), err)
	}
	defer b.Close()
	c.carried, c.old = &b.Info, b.Info.Origin == c.m.Origin
	return nil
}

// intoCluster is Over of a node of a cluster.
func (c *Conversion) intoCluster(ctx context.Context) (pending bool, err error) {
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
	if err := c.checkRetention(); err != nil {
		return false, err
	}
	if c.carried == nil {
		c.Log.Warn("journal: this directory belonged to a single node; converting it into a cluster node, with all its counts")
		if err := c.Write(ctx, false); err != nil {
			return false, err
		}
	}
	if err := c.SetAside(); err != nil {
		return false, err
	}
	return true, c.Begin(checkpoint.NewManifest(c.Engine.Config()))
}

// overSingle is Over for a single node.
func (c *Conversion) overSingle(ctx context.Context) error {
	if c.carried != nil && !c.old {
		if c.node == "" && c.filled {
			return c.clear()
		}
		return fmt.Errorf("data directory %s is becoming a node of a cluster: start it with the --cluster, --nats and --node that it was started with, until it has; "+
			"to have it back as it was before, run weir restore %s --data DIR, with another DIR", c.Dir, filepath.Join(c.Dir, CarriedFile))
	}
	if c.node != "" && c.m.Epoch == 0 && c.carried == nil {
		return fmt.Errorf("data directory %s belongs to node %s of cluster %s, which never joined it and has no counts: start it with --cluster %[3]s --node %[2]s; to make it a single node, "+
			"name another --data, or remove the directory", c.Dir, c.node, c.cluster)
	}
	if c.node != "" && !c.LeaveCluster {
		return fmt.Errorf("data directory %s belongs to node %s of cluster %s: start it with --cluster %[3]s --node %[2]s; to make it a single node with all counts of the cluster, "+
			"stop all other nodes first and start it with its own address as the only one of --peers", c.Dir, c.node, c.cluster)
	}
	fits := c.m.Fits(c.Engine.Config()) == nil
	switch {
	case c.m.Epoch == 0 && c.carried == nil:
		if fits || c.filled {
			return nil
		}
		return c.Begin(checkpoint.NewManifest(c.Engine.Config())) // it never had a hit
	case c.node == "" && c.filled && fits && !c.before: // as it is; or it was to become another, and stays
		return c.clear()
	case c.carried == nil && !c.filled:
		return nil // damage, which the start finds
	}
	if err := c.checkRetention(); err != nil {
		return err
	}
	if c.carried == nil {
		c.sayChange()
		if err := c.Write(ctx, c.node != ""); err != nil {
			return err
		}
	}
	if err := c.SetAside(); err != nil {
		return err
	}
	if err := c.Restage(ctx); err != nil {
		return err
	}
	return c.clear()
}

// checkRetention refuses a shorter retention, unless it is confirmed: a slip must not cost hits. Nothing was changed
// before.
func (c *Conversion) checkRetention() error {
	was, is := time.Duration(c.m.RetentionS)*time.Second, c.Engine.Config().Retention
	if c.carried != nil {
		was = time.Duration(c.carried.RetentionS) * time.Second
	}
	if is >= was || c.Shrink {
		return nil
	}
	before, now := units.FormatDuration(was), units.FormatDuration(is)
	return &engine.Error{Code: api.CodeInvalidConfig, Field: "Retention", Message: fmt.Sprintf(
		"data directory %s keeps hits for %s: with a retention of %s all hits older than %s would be dropped for good, so nothing was changed; start with --retention %s to keep them, or add --shrink-retention to drop them",
		c.Dir, before, now, now, before)}
}

func (c *Conversion) sayChange() {
	was, is := time.Duration(c.m.RetentionS)*time.Second, c.Engine.Config().Retention
	attrs := []any{"partitions", c.Engine.Config().Partitions, "before", c.m.Partitions, "retention", is, "retention before", was}
	if c.node != "" {
		c.Log.Warn("journal: this directory belonged to a cluster node; converting it into a single node", attrs...)
	} else {
		c.Log.Warn("journal: rewriting the data directory with new settings", attrs...)
	}
	if is < was {
		c.Log.Warn("journal: the retention is shorter now; dropping older hits", "older than", is)
	}
}

// Write is step 1.
func (c *Conversion) Write(ctx context.Context, ofMany bool) error {
	path := filepath.Join(c.Dir, CarriedFile)
	what := fmt.Errorf("journal: what the data directory has can't be carried over, and it was left as it is")
	file, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|files.NoFollow, 0o600)
	if err != nil {
		return errors.Join(what, err)
	}
	err = c.writeBackup(ctx, file, ofMany)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = c.check(ctx, path+".new")
	}
	if err != nil {
		return errors.Join(what, err, os.Remove(path+".new"))
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return files.SyncDirectory(c.Dir)
}

// check reads a backup as a restore will.
func (c *Conversion) check(ctx context.Context, path string) error {
	s, err := CheckSpool(ctx, path)
	if err != nil {
		return err
	}
	return s.Each(ctx, func(*engine.Engine, replication.Content) error { return nil }, func([][]byte, []replication.Request) error { return nil })
}

// SetAside is step 2. If BeforeDir is there, the files in ServerDir are of a step 3 that was cut off.
func (c *Conversion) SetAside() error {
	from, to := filepath.Join(c.Dir, checkpoint.ServerDir), filepath.Join(c.Dir, BeforeDir)
	_, err := os.Lstat(to)
	switch {
	case err == nil:
		err = os.RemoveAll(from)
	case errors.Is(err, fs.ErrNotExist):
		if err = os.Rename(from, to); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return errors.Join(err, files.SyncDirectory(c.Dir))
}

// Begin is step 3 in a cluster.
func (c *Conversion) Begin(m checkpoint.Manifest) error {
	if err := removeFiles(c.Dir, checkpoint.WatermarkFile); err != nil {
		return err
	}
	if err := m.Save(c.Dir); err != nil {
		return fmt.Errorf("journal: manifest: %w", err)
	}
	c.m = m
	return nil
}

// Restage is step 3 alone.
func (c *Conversion) Restage(ctx context.Context) error {
	s, err := CheckSpool(ctx, filepath.Join(c.Dir, CarriedFile))
	if err != nil {
		return err
	}
	m := checkpoint.NewManifest(c.Engine.Config())
	engine, err := newEngine(m.Partitions, m.RetentionS, nil)
	if err != nil {
		return err
	}
	defer engine.Close()
	if err := s.PourInto(ctx, engine); err != nil {
		return err
	}
	stage := filepath.Join(c.Dir, checkpoint.RestoreStage)
	if err := errors.Join(os.RemoveAll(stage), os.Mkdir(stage, 0o700)); err != nil {
		return err
	}
	if err := c.Fill(ctx, engine, stage, RestoreEntryOf(s, "")); err != nil {
		return errors.Join(err, os.RemoveAll(stage))
	}
	if err := checkpoint.Unstage(stage, c.Dir); err != nil {
		return err
	}
	if err := os.RemoveAll(stage); err != nil {
		return err
	}
	c.m, _, err = checkpoint.LoadManifest(c.Dir)
	return err
}

// clear is step 4.
func (c *Conversion) clear() error {
	c.carried = nil
	return clearAway(c.Dir)
}

// removeFiles removes those that are there, in this order.
func removeFiles(dir string, names ...string) error {
	for _, name := range names {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func clearAway(dir string) error {
	if err := removeFiles(dir, CarriedFile+".new", CarriedFile); err != nil {
		return err
	}
	return errors.Join(files.SyncDirectory(dir), os.RemoveAll(filepath.Join(dir, BeforeDir)), os.RemoveAll(filepath.Join(dir, checkpoint.RestoreStage)))
}

// FinishCarry merges what a directory had into the cluster's journal, and returns when
// that is done: step 4 of a cluster follows.
func FinishCarry(ctx context.Context, to *RestoreTarget) error {
	s, err := CheckSpool(ctx, filepath.Join(to.Dir, CarriedFile))
	if err != nil {
		return err
	}
	ctx, free, err := to.Claims.Await(ctx)
	if err != nil {
		return err
	}
	defer free()
	if _, err := to.Spool(ctx, s, api.Merge); err != nil {
		return err
	}
	return clearAway(to.Dir)
}

// moves say where topics are counted of which the backup has hits.
func (s *Spool) moves(ctx context.Context) (moves []replication.Request, err error) {
	first := replication.NewPartitionSet(s.Info.Partitions)
	first.Add(0)
	err = s.eachOf(ctx, first, func(*engine.Engine, replication.Content) error { return nil }, func(_ [][]byte, list []replication.Request) error {
		moves = list
		return nil
	})
	return moves, err
}

// ClaimCarry refuses a cluster that has grown from another directory than this one, whose hits are
// to be merged into its journal. moves say up to where topics are counted whose hits it has.
func ClaimCarry(ctx context.Context, merges *Merges, dir string) (moves []replication.Request, err error) {
	s := &Spool{Path: filepath.Join(dir, CarriedFile)}
	b, err := s.Open()
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if err := merges.ClaimGrown(ctx, b.Info.Journal, s.Path); err != nil {
		return nil, err
	}
	s.Info = b.Info
	return s.moves(ctx)
}

// Fill makes a data directory with all that an engine has, in snapshots. It remembers
// the backup that it was made from, entry.
type Fill func(ctx context.Context, engine *engine.Engine, dir string, entry RestoreEntry) error

// RestoreDirectory makes a data directory out of a backup. dir must be empty, not be there, or be
// left by a Restore that was killed. All counts are loaded and audited first; where the backup is damaged or
// cut short, nothing is left behind. The directory has a new origin, so that it
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
	past, err := b.historyInto(filepath.Join(dir, checkpoint.HistoryFile))
	if err != nil {
		return b.Info, err
	}
	if err := errors.Join(b.Load(engine, nil), past.finish()); err != nil {
		return b.Info, err
	}
	if err := fill(ctx, engine, stage, RestoreEntry{
		Journal: b.Info.Journal, Origins: b.Origins(), Taken: b.Info.Taken, Began: time.Now().UTC(), Policies: b.Info.Policies, History: past.path,
	}); err != nil {
		return b.Info, err
	}
	return b.Info, checkpoint.Unstage(stage, dir)
}

// pastFile is the file that the history of a backup is written to, "": there is none.
type pastFile struct {
	*os.File
	path string
}

// historyInto has the history of a backup written to a file, while the backup is read.
func (b *Reader) historyInto(path string) (p pastFile, err error) {
	if !b.Info.History {
		return p, nil
	}
	if p.File, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return p, err
	}
	p.path = path
	b.history = func(piece []byte) error {
		_, err := p.Write(piece)
		return err
	}
	return p, nil
}

func (p pastFile) finish() error {
	if p.File == nil {
		return nil
	}
	return errors.Join(p.Sync(), p.Close())
}

// leavingDir has a copy of a cluster node's files while its backup is written. The
// server writes into what it opens, and the node may stay in the cluster after all.
const leavingDir = "leaving"

// writeBackup writes a backup of the directory, which no server has open. For a node of a
// cluster it has what the node's replica has. That must be everything, unless AcceptDamage is set.
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
			err = copyAlone(dir, from, true)
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

// copyAlone copies a directory, for a server of a node alone that reads it. clustered says that it belongs to a node of a cluster.
func copyAlone(dir, to string, clustered bool) error {
	err := checkpoint.CopyDirectory(dir, to)
	if err == nil && clustered {
		err = transport.Alone(filepath.Join(to, checkpoint.ServerDir))
	}
	return err
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
		return nil, nil, errors.Join(err, server.Close())
	}
	return &directory{server, store}, missing, nil
}

func (d *directory) close() { _ = d.server.Close() } // of a copy: it is not opened again
