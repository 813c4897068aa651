// Package durable makes an engine durable. At every flush interval its new hits leave as batches into a stream of an embedded NATS
// JetStream server, which syncs them to disk before it acknowledges. A restart loads the newest good
// snapshot of each partition and replays the batches after it. Among many nodes the package
// follows the flushes of all, and takes and releases partitions.
//
// It has the goroutines and the connection: open, flush, follow, close, alarms. Package replica decides, without I/O. Package record has the
// bytes, stream the streams, checkpoint the snapshots and files, and membership what the nodes of a cluster exchange.
//
// The path of a hit: replica.Cut, record (bytes), flusher.go (publish, acknowledge), stream. The way back: checkpoint (snapshot, replay),
// follow.go, replica (audit), the engine. docs/format.md names the bytes.
//
// Invariants:
//   - A hit is acknowledged as durable after its flush is on disk.
//   - An epoch is on disk before the first batch of it.
//   - The last flushes are written before the server stops.
//   - Nothing that is acknowledged is dropped, also while the disk is full.
package durable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/backup"
	"github.com/weir-counter/weir/internal/cluster/kv"
	"github.com/weir-counter/weir/internal/cluster/membership"
	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/checkpoint"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/internal/journal/stream"
	"github.com/weir-counter/weir/internal/tracing"
)

// Journal keeps an engine's hits on disk. It owns the data directory, the
// embedded server and two goroutines, all until Close.
type Journal struct {
	cfg    Config
	engine *engine.Engine
	log    *slog.Logger

	lock   *checkpoint.DirectoryLock
	server *transport.Node
	store  *stream.Store
	marks  *checkpoint.WatermarkWriter
	own    record.Incarnation

	manifest checkpoint.Manifest

	dirThere, serverThere *checkpoint.Presence // gone.go; nil where the server is not embedded

	suspect atomic.Bool           // something failed since the server was found well
	offline atomic.Pointer[error] // why the server of a clustered node could not be restarted; nil: it runs

	replica     *replica.Replica
	flusher     *replica.Flusher // its goroutine's
	waiters     *concurrency.Queue
	others      *others // nil: this node is alone
	checkpoints *checkpoint.Checkpointer
	space       replica.Space
	stats       stats
	written     atomic.Pointer[written]
	clocks      *membership.Clocks
	setUnsaved  bool             // the flusher's: that the clock was set is not in the manifest yet
	short       time.Time        // the flusher's: the journal ends before what was applied here, since then
	found       []record.Finding // at Open

	stop    context.CancelCauseFunc
	failed  chan struct{} // closed when the journal can't go on
	failure error         // why; written before failed is closed
	failing sync.Once
	closing atomic.Bool // the last flushes are written, be there space or not
	leaving atomic.Bool // no hit comes any more
	running sync.WaitGroup
	closed  sync.Once

	carrying bool                  // what the directory had before is to be merged (backup.Carry)
	carried  []replication.Request // where topics are counted of which that has hits
	merges   *backup.Merges
	policies *kv.Document
	restores *backup.RestoreTarget
	history  HistoryCopy // nil: there is none
	handed   chan handedOver
	unwrote  chan chan [][]byte // requests for what could not be written
	stopped  <-chan struct{}    // the flusher takes no more
	claims   claims
	flushed  chan flushed // for the follower, which need not read it
	more     more         // was followed
	elected  more         // leaders of the stream of flushes
}

// Sync returns when every hit counted before the call is on disk. Many callers
// share one flush.
func (j *Journal) Sync(ctx context.Context) error {
	group := j.waiters.Join()
	select {
	case <-group.Done:
		if span := tracing.From(ctx); span != nil {
			traceFlush(span, group)
		}
		return group.Err
	case <-ctx.Done():
		return fmt.Errorf("the hits are counted, but not yet on disk: %w", context.Cause(ctx))
	}
}

// traceFlush adds the flush of a group to the trace of the first request that waited for it, and links the others to it.
func traceFlush(span *tracing.Span, group *concurrency.Group) {
	group.Traced.Do(func() { group.Trace = span.Past("journal flush", group.Began, group.Ended, group.Err != nil) })
	if flush, is := group.Trace.(*tracing.Span); is {
		span.Link(flush)
	}
}

// Origin is the origin of this node's data directory, 16 hex digits.
func (j *Journal) Origin() string { return fmt.Sprintf("%016x", j.own.Origin) }

// Failed is closed when the journal can't go on, and Err says why: this process
// must be started again. Hits are refused once the buffer is full; none is lost.
func (j *Journal) Failed() <-chan struct{} { return j.failed }

// Err is why the journal failed; nil: it did not.
func (j *Journal) Err() error {
	select {
	case <-j.failed:
		return j.failure
	default:
		return nil
	}
}

// Policies is where policies that were put by API are kept, on all nodes.
func (j *Journal) Policies() *kv.Document { return j.policies }

// fail ends the journal for err, and reports whether it was the first to.
func (j *Journal) fail(err error) (first bool) {
	j.failing.Do(func() {
		first, j.failure = true, err
		close(j.failed)
	})
	return first
}

// errClosing is why the flusher stops.
var errClosing = errors.New("journal: closing")

// Close flushes, snapshots what changed if this node is alone, and stops the
// embedded server. If ctx
// ends first, the snapshots are left for the next start to do without: nothing
// is lost. If the flush can't be done, it says how much was not written.
func (j *Journal) Close(ctx context.Context) (err error) {
	j.closed.Do(func() {
		j.checkpoints.NoMorePins(errClosing)
		j.closing.Store(true)
		if !j.cfg.clustered() { // the others go on to take them, and may be gone for all that is stored here
			j.checkpoints.StartRound()
		}
		if err = j.lastSync(ctx); err == nil {
			if !j.cfg.clustered() {
				j.finishRound(ctx)
			}
			j.leave(ctx)
		}
		j.stop(errClosing)
		j.running.Wait()
		switch lost := j.unwritten(); {
		case err == nil:
		case lost == 0 && j.isGone():
		case lost == 0:
			j.log.Warn("journal: could not write the last heartbeat because no other node is running; no hit is lost", "error", err)
			err = nil
		default:
			err = fmt.Errorf("%d entries (hits, one for each key and second) could not be written in time, and are lost: %w", lost, err)
		}
		err = errors.Join(err, j.release())
	})
	return err
}

func (j *Journal) unwritten() int64 { return j.engine.Stats().Waiting + j.flusher.Open() }

// lastSync is Sync. A clustered node whose files are gone does not wait for long: it may lead a stream
// that it can't write any more, and the others go on once it has ended. Nor does one that has written all its hits and that no other
// node is connected to: nobody is there to store that it stops, or to hear it.
func (j *Journal) lastSync(ctx context.Context) error {
	if !j.cfg.clustered() || !j.isGone() && (j.unwritten() > 0 || j.server.Accompanied()) {
		return j.Sync(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, leaveTimeout, cmp.Or(j.Err(), errAlone))
	defer cancel()
	return j.Sync(ctx)
}

// errAlone is why a node that stops does not say so.
var errAlone = errors.New("no other node runs")

// release gives back what open took before it failed.
func (j *Journal) release() error {
	var errs []error
	if j.others != nil {
		j.others.leave(j.log)
	}
	var stuck error
	if j.server != nil {
		stuck = j.server.Close()
	}
	if j.others != nil && j.others.holders != nil {
		j.others.holders.Wait()
	}
	if j.marks != nil {
		errs = append(errs, j.marks.Close())
	}
	if j.lock != nil && stuck == nil { // else the server may still write there
		errs = append(errs, j.lock.Release())
	}
	return errors.Join(append(errs, stuck)...)
}

func (j *Journal) finishRound(ctx context.Context) {
	for j.checkpoints.InRound() {
		if err := j.Sync(ctx); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			j.log.Warn("stopped before all snapshots were taken; the next start replays more of the journal")
			return
		case <-j.checkpoints.Stored():
		case <-time.After(j.cfg.FlushEvery):
		}
	}
}

// Messages is the journal as a tail reads it.
type Messages struct {
	replica.TailSource
	j *Journal
}

// Messages is the journal for readers that make something other than counts of it, such as history.
func (j *Journal) Messages() Messages { return Messages{j.store, j} }

// ID is the journal's identity, 16 hex digits: the same on all nodes of a cluster.
func (m Messages) ID() string { return record.JournalText(m.j.store.ID()) }

// Partitions is how many partitions the journal's flushes have.
func (m Messages) Partitions() int { return m.j.manifest.Partitions }

// written is up to when hits are in the journal.
type written struct {
	message uint64
	asOf    time.Time
}

// Written says that all hits that were taken until asOf, on any node, are in the journal up to
// a message. asOf is zero right after Open.
func (m Messages) Written() (message uint64, asOf time.Time) {
	j := m.j
	if j.cfg.clustered() {
		asOf, _ = j.LateOrigins()
		return j.Followed(), asOf
	}
	if w := j.written.Load(); w != nil {
		return w.message, w.asOf
	}
	return 0, time.Time{}
}

// Grown reports whether the journal belongs to a cluster that has grown from a node alone.
func (m Messages) Grown(ctx context.Context) (bool, error) { return m.j.merges.Grown(ctx) }

// NewestSnapshots calls f with the newest sound snapshot of each partition, in order, nil where there is none.
func (m Messages) NewestSnapshots(ctx context.Context, f func(partition int, snap *record.Snapshot) error) error {
	for partition := range m.Partitions() {
		newest, err := m.j.store.Newest(ctx, partition)
		if err == nil {
			err = f(partition, newest)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Stats are the journal's figures since Open.
type Stats struct {
	Flushes    uint64           `metric:"weir_journal_flushes_total" doc:"Flushes that are on disk."`
	Bytes      uint64           `metric:"weir_journal_bytes_total" doc:"Bytes of flushes that are on disk."`
	Retained   int64            `metric:"weir_journal_kept_bytes" doc:"Bytes of journal that are kept, of all nodes."`
	LastFlush  time.Duration    `metric:"weir_journal_flush_seconds" doc:"Time that the last flush took, from the engine to the disk."`
	Failures   uint64           `metric:"weir_journal_failures_total" doc:"Failed attempts to write a flush; each is retried."`
	Failing    bool             `metric:"weir_journal_failing" doc:"1 while the last attempt to write a flush failed: hits wait, and are refused once the buffer is full."`
	Revivals   uint64           `metric:"weir_journal_revivals_total" doc:"Restarts of the embedded server after a full disk."`
	Rounds     uint64           `metric:"weir_journal_snapshot_rounds_total" doc:"Rounds in which every partition was snapshotted."`
	Fresh      uint64           `metric:"weir_fresh_rounds_total" doc:"Rounds in which all nodes were asked for their newest hits. Queries with fresh= share rounds."`
	NotFresh   uint64           `metric:"weir_fresh_failures_total" doc:"Rounds without a fresh answer, because a node did not confirm in time that its hits are in the journal."`
	Consumers  int              `metric:"weir_journal_consumers" doc:"JetStream consumers of the journal's stream: Weir makes none, other programs may."`
	Holes      uint64           `metric:"weir_journal_holes_total" doc:"Messages of the journal that no replica had."`
	Repaired   uint64           `metric:"weir_journal_repaired_total" doc:"Flushes of other nodes that the journal lost and their origin sent again."`
	Divergence uint64           `metric:"weir_journal_divergence_total" doc:"Findings of other nodes' hits that are missing here: any is an alarm."`
	LongestCut time.Duration    `metric:"weir_journal_longest_cut_seconds" doc:"Longest time that a partition was locked to take its state."`
	Replayed   uint64           `metric:"weir_journal_replayed_flushes" doc:"Flushes that were read back at the start."`
	Repeats    uint64           `metric:"weir_journal_findings,kind=repeat" doc:"What the audit at the start found: lossy or harmless damage, messages that came twice (repeat), flushes that a crash cut off (unfinished)."`
	Unfinished uint64           `metric:"weir_journal_findings,kind=unfinished"`
	Findings   []record.Finding // at Open
	Lossy      int              `metric:"weir_journal_findings,kind=lossy"`
	Harmless   int              `metric:"weir_journal_findings,kind=harmless"`
	Epoch      uint64
}

type stats struct {
	flushes, bytes, failures, revivals, divergences atomic.Uint64
	lastFlush, longestCut                           atomic.Int64
	wrong                                           atomic.Pointer[error] // of the last attempt to write a flush; nil: it was written
	replays, repeats, unfinished                    uint64                // written by Open alone
}

func (s *stats) flushed(took time.Duration) {
	s.flushes.Add(1)
	s.lastFlush.Store(int64(took))
}

func (s *stats) wrote(bytes int)  { s.bytes.Add(uint64(bytes)) }
func (s *stats) failed(err error) { s.failures.Add(1); s.wrong.Store(&err) }
func (s *stats) recovered()       { s.wrong.Store(nil) }
func (s *stats) failing() bool    { return s.wrong.Load() != nil }

func (s *stats) timed(takeState func()) {
	began := time.Now()
	takeState()
	took := time.Since(began)
	for was := s.longestCut.Load(); int64(took) > was && !s.longestCut.CompareAndSwap(was, int64(took)); {
		was = s.longestCut.Load()
	}
}

// clusterJournal is what an answer says of the journal, but for its messages.
func (j *Journal) clusterJournal() *api.ClusterJournal {
	st := j.Stats()
	return &api.ClusterJournal{Bytes: st.Retained, Divergence: st.Divergence, Holes: st.Holes, Repaired: st.Repaired, LossyFindings: st.Lossy}
}

// AddStats adds to an answer what it says of the journal.
func (j *Journal) AddStats(a *api.StatsAnswer) {
	st := j.Stats()
	a.Durable = true
	a.Journal = &api.JournalStats{
		Epoch: st.Epoch, Flushes: st.Flushes, Bytes: st.Bytes, FlushSeconds: st.LastFlush.Seconds(), Failures: st.Failures, Failing: st.Failing,
		SnapshotRounds: st.Rounds, ReplayedFlushes: st.Replayed, LossyFindings: st.Lossy, HarmlessFindings: st.Harmless,
	}
}

// Stats returns the figures.
func (j *Journal) Stats() Stats {
	holes, repaired := j.replica.Repairs()
	s := Stats{
		Flushes:    j.stats.flushes.Load(),
		Bytes:      j.stats.bytes.Load(),
		Retained:   j.space.Retained(),
		LastFlush:  time.Duration(j.stats.lastFlush.Load()),
		Failures:   j.stats.failures.Load(),
		Failing:    j.stats.failing(),
		Revivals:   j.stats.revivals.Load(),
		Rounds:     j.checkpoints.Rounds(),
		Consumers:  j.store.Consumers(),
		Holes:      holes,
		Repaired:   repaired,
		Divergence: j.stats.divergences.Load(),
		LongestCut: time.Duration(j.stats.longestCut.Load()),
		Replayed:   j.stats.replays,
		Repeats:    j.stats.repeats,
		Unfinished: j.stats.unfinished,
		Findings:   j.found,
		Epoch:      j.own.Epoch,
	}
	for _, f := range j.found {
		if f.Harmless {
			s.Harmless++
		} else {
			s.Lossy++
		}
	}
	if j.others != nil {
		s.Fresh, s.NotFresh = j.others.fresh.Rounds()
	}
	return s
}
