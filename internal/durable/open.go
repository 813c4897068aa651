package durable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-counter/weir/internal/backup"
	"github.com/weir-counter/weir/internal/cluster/kv"
	"github.com/weir-counter/weir/internal/cluster/membership"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/journal/checkpoint"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/internal/journal/stream"
)

// Open locks the data directory, loads what is in it into the engine, which
// must be new and made with Config.Gather, and starts to journal its hits.
//
// Where hits were lost to damage, Open returns a *DamageError, unless
// Config.AcceptDamage is set. What is wrong is named either way. progress, if not nil, is called now and then while the journal
// is replayed, with the messages done and to do.
func Open(ctx context.Context, e *engine.Engine, cfg Config, progress func(done, all uint64)) (*Journal, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	made := e.Config()
	if !made.Gather {
		return nil, errors.New("journal: the engine must be made with Config.Gather")
	}
	if err := cfg.FitsMemory(made); err != nil {
		return nil, err
	}
	j := &Journal{cfg: cfg, engine: e, log: cfg.Logger, waiters: concurrency.NewQueue(), failed: make(chan struct{}), handed: make(chan handedOver), unwrote: make(chan chan [][]byte), flushed: make(chan flushed, 1)}
	if err := j.open(ctx, progress); err != nil {
		return nil, errors.Join(err, j.release())
	}
	run, stop := context.WithCancelCause(context.Background())
	j.stop, j.stopped = stop, run.Done()
	j.running.Go(func() { j.runFlusher(run) })
	j.running.Go(func() { j.checkpoints.Run(run) })
	j.running.Go(func() { j.runRecovery(run) })
	if !cfg.clustered() && j.serverThere != nil {
		j.running.Go(func() { j.runPresence(run) })
	}
	if cfg.clustered() {
		j.running.Go(func() { j.runFollower(run) })
		j.running.Go(func() { j.clocks.Run(run) })
		if j.server.Embedded() {
			j.running.Go(func() { j.runHealing(run) })
		}
		for _, loop := range j.others.loops() {
			j.running.Go(func() { loop(run) })
		}
	}
	if j.carrying {
		if err := j.finishCarry(ctx); err != nil {
			stop(errClosing)
			j.running.Wait()
			return nil, errors.Join(fmt.Errorf("journal: the counts of this former single node are not in the cluster yet; start it again to continue: %w", err), j.release())
		}
	}
	return j, nil
}

func (j *Journal) open(ctx context.Context, progress func(done, all uint64)) (err error) {
	if j.lock, err = checkpoint.LockDirectory(j.cfg.Dir); err != nil {
		return err
	}
	j.space.Init(j.cfg.MaxBytes, j.cfg.clustered())
	j.cfg.Dir = j.lock.Path // wherever a link on the way to it leads later
	m, found, err := checkpoint.LoadManifest(j.cfg.Dir)
	if errors.Is(err, record.ErrDamaged) && j.cfg.clustered() {
		return fmt.Errorf("%w: with the other nodes up and none of them late, start this one with an empty directory under the same name", err)
	}
	if err != nil {
		return err
	}
	if !found {
		if err := checkpoint.RefuseForeignFiles(j.cfg.Dir); err != nil {
			return err
		}
		m = checkpoint.NewManifest(j.engine.Config())
		if err := m.Save(j.cfg.Dir); err != nil { // in epoch 0: a start that does not come to its end can be made again
			return fmt.Errorf("journal: manifest: %w", err)
		}
	}
	if m, j.carrying, err = j.cfg.carry(j.engine).Over(ctx, m); err != nil {
		return err
	}
	if err := m.Fits(j.engine.Config()); err != nil {
		return err
	}
	if j.server, err = startServer(ctx, j.cfg); err != nil {
		return err
	}
	j.clocks = &membership.Clocks{Conn: j.server.Conn(), Log: j.log, Origin: m.Origin, Node: j.cfg.Join.Node, Clock: j.engine.Wall(), Origins: j.Origins}
	isNew := m.Epoch == 0
	var missing []record.Finding
	if j.store, missing, err = stream.Open(ctx, j.server.JetStream(), identityOf(m), j.server.Replicas, isNew || j.cfg.AcceptDamage, j.log); err != nil {
		return err
	}
	if isNew {
		missing = nil
	}
	if j.store == nil {
		return &record.DamageError{Findings: missing, Clustered: j.cfg.clustered()}
	}
	m.Journal = j.store.ID()
	j.merges = &backup.Merges{JetStream: j.server.JetStream(), Replicas: j.server.Replicas, Journal: j.store.ID}
	j.policies = &kv.Document{JetStream: j.server.JetStream(), Replicas: j.server.Replicas}
	if j.carrying {
		if j.carried, err = backup.ClaimCarry(ctx, j.merges, j.cfg.Dir); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
	}
	if j.cfg.clustered() {
		j.clocks.Compare(ctx, max(1, len(j.cfg.Join.Peers)-1)) // before what others counted is judged by it
		j.others = &others{highWater: membership.NewHighWater(j.server.Conn(), j.log, membership.FlushesSubject)}
		if j.others.holders, err = membership.OpenHolders(ctx, j.server, membership.HoldersConfig{
			Node: j.cfg.Join.Node, Replicas: j.cfg.Replicas, MoveAfter: j.cfg.MoveAfter, Engine: j.engine, Log: j.log, Origins: j.Origins,
		}); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
	}
	j.newReplica(m)
	j.replica.Note(missing...)
	start := checkpoint.Start{Store: j.store, Replica: j.replica, Partitions: m.Partitions, Dir: j.cfg.Dir, New: isNew, Progress: progress}
	if j.cfg.clustered() {
		start.Follow, start.FollowTo = j.followOne, j.followTo
	}
	loaded, err := start.Load(ctx)
	if err != nil {
		return err
	}
	j.stats.replays, j.stats.repeats, j.stats.unfinished = j.replica.Replayed()
	loaded.Findings = append(loaded.Findings, replaced(j.server.Damage())...)
	j.found = loaded.Findings
	for _, f := range loaded.Findings {
		j.log.Error("data directory", "finding", f.String())
	}
	if lost := record.Losses(loaded.Findings); len(lost) > 0 && !j.cfg.AcceptDamage {
		return &record.DamageError{Findings: lost, Clustered: j.cfg.clustered()}
	}
	m.Epoch++ // on disk before the first batch of the epoch
	if err := m.Save(j.cfg.Dir); err != nil {
		return fmt.Errorf("journal: manifest: %w", err)
	}
	j.own, j.manifest = record.Incarnation{Origin: m.Origin, Epoch: m.Epoch}, m
	accepted := len(record.Losses(loaded.Findings)) > 0
	if accepted && !j.cfg.clustered() { // in a cluster the journal is not this node's to start over
		if err := start.Rebase(ctx, j.own, &loaded); err != nil {
			return fmt.Errorf("journal: go on without what was lost: %w", err)
		}
	}
	if j.marks, err = checkpoint.OpenWatermark(j.cfg.Dir); err != nil {
		return fmt.Errorf("journal: mark: %w", err)
	}
	if err := j.marks.Write(checkpoint.Watermark{Epoch: m.Epoch, Stream: loaded.Last}); err != nil {
		return fmt.Errorf("journal: mark: %w", err)
	}
	j.flusher = replica.NewFlusher(j.replica, &j.space, loaded.Last)
	j.checkpoints.Begin(loaded.Have)
	j.replica.Begin(j.own)
	j.newRestores()
	if j.cfg.clustered() {
		if err := j.beginCluster(ctx); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		if err := j.endQuarantine(ctx, record.Losses(loaded.Findings)); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
	}
	if err := j.noteFiles(); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j.space.Loaded(loaded.Bytes)
	j.space.Bound(j.engine, 0)
	if accepted && !j.cfg.clustered() {
		j.checkpoints.StartRound() // for the other slots
	}
	return nil
}

// newReplica makes what decides of the journal, and what takes its snapshots.
func (j *Journal) newReplica(m checkpoint.Manifest) {
	j.replica = replica.New(j.engine, m.Origin, j.cfg.Join.Node, j.cfg.clustered())
	j.replica.Timed, j.replica.Stamp = j.stats.timed, j.now
	j.replica.Sets = m.ClockSet
	j.checkpoints = checkpoint.New(checkpoint.Config{
		Engine: j.engine, Replica: j.replica, Store: j.store, Logger: j.log,
		FlushEvery: j.cfg.FlushEvery, SnapshotBytes: j.cfg.SnapshotBytes,
		Space: &j.space, Needed: j.cfg.Needed, Hurry: j.waiters.Hurry, Suspect: func() { j.suspect.Store(true) },
		Clustered: j.cfg.clustered(), Node: j.cfg.Join.Node,
		Held: func() (token uint64, held bool) {
			l, held := j.others.lease.Held()
			return l.Token, held
		},
		Who:     func(ctx context.Context) (string, error) { return j.others.lease.Who(ctx) },
		Holders: j.holdersOfParts,
	})
}

// revive restarts the embedded server of a single node if it refuses to write for
// good, as it does after one full disk, and there is space again. It looks only
// when something failed since it last found all well. Only the flusher calls it:
// no flush is under way. In a cluster healing.go does it.
//
// The flush that failed is in the stream, or not, or cut: the server removes a
// message that is cut when it starts. Sent again it may be there twice; a start
// drops the repeat (package replica).
func (j *Journal) revive(ctx context.Context) error {
	if !j.suspect.Load() || j.cfg.clustered() {
		return nil
	}
	wrong := j.server.Health()
	if wrong == nil {
		j.suspect.Store(false)
		return nil
	}
	if err := checkpoint.TrySpace(j.cfg.Dir); err != nil {
		return fmt.Errorf("%w: %w", err, wrong)
	}
	j.log.Warn("journal: the embedded server still reports an error although the disk has space; restarting it", "error", wrong)
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := j.server.Stop(); err != nil {
		if j.fail(fmt.Errorf("journal: %w", err)) {
			j.stats.failed(err)
		}
		return err
	}
	if err := j.server.Start(ctx); err != nil {
		return err
	}
	if err := j.server.AwaitJetStream(ctx); err != nil {
		return err
	}
	if err := j.continues(ctx); err != nil {
		return errors.Join(err, j.server.Stop())
	}
	j.stats.revivals.Add(1)
	j.suspect.Store(false)
	return nil
}

// continues reports whether a server that was restarted has all that was acknowledged.
func (j *Journal) continues(ctx context.Context) error {
	_, missing, err := stream.Open(ctx, j.server.JetStream(), identityOf(j.manifest), j.server.Replicas, false, j.log)
	if err == nil && len(missing) > 0 {
		err = &record.DamageError{Findings: missing}
	}
	if err != nil {
		return err
	}
	_, last, _, err := j.store.Bounds(ctx)
	if err == nil && last < j.flusher.Last() {
		err = fmt.Errorf("the journal ends at message %d, and %d was acknowledged: stop the server, and look with weir verify", last, j.flusher.Last())
	}
	return err
}

// handedOver is a flush of a backup, or some parts of one, on its way to the goroutine that writes flushes.
type handedOver struct {
	ctx   context.Context // when it ends before the parts are written, they are not
	parts [][]byte
	done  chan error // holds one
}

// spacePoll is how often a restore looks whether the journal was trimmed.
const spacePoll = 50 * time.Millisecond

// handOverWithSpace is handOver that leaves space for hits: it waits until there is more.
func (j *Journal) handOverWithSpace(ctx context.Context, parts [][]byte) error {
	if err := j.awaitSpace(ctx, int64(record.SizeOf(parts)), func() {}); err != nil {
		return fmt.Errorf("the journal has no space for more: %w", err)
	}
	return j.handOver(ctx, parts)
}

// awaitSpace returns when the journal has space for something large that is no hit's. It calls again each time that it looks in vain.
func (j *Journal) awaitSpace(ctx context.Context, bytes int64, again func()) error {
	for !j.space.Takes(bytes) {
		again()
		if err := concurrency.Sleep(ctx, spacePoll); err != nil {
			return err
		}
		if err := j.Err(); err != nil {
			return err
		}
		j.checkpoints.LookAtSize(ctx)
	}
	return nil
}

// handOver has a flush of a backup, or some parts of one, written between this node's flushes, and returns when it is in the
// journal.
func (j *Journal) handOver(ctx context.Context, parts [][]byte) error {
	h := handedOver{ctx, parts, make(chan error, 1)}
	select {
	case j.handed <- h:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-j.failed:
		return j.failure
	case <-j.stopped:
		return errClosing
	}
	select {
	case err := <-h.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// takeOver writes a flush of a backup. Among nodes it is applied when it comes back; alone
// nobody else does, and before the next flush, whose snapshots say that they have it.
func (j *Journal) takeOver(ctx context.Context, h handedOver) error {
	if h.ctx.Err() != nil { // a snapshot may have been taken since
		return context.Cause(h.ctx)
	}
	parts := h.parts
	j.flusher.BeginForeign(time.Now(), parts)
	if err := j.publish(ctx); err != nil {
		return err
	}
	j.flusher.End()
	if j.cfg.clustered() {
		return nil
	}
	return j.replica.ApplyAlone(parts)
}
