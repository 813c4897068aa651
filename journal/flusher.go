package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-counter/weir"
)

// flusher is the state of the goroutine that moves hits from the engine to the
// stream. One flush is under way at a time; hits meanwhile gather in the engine,
// aggregated and bounded by its MaxWaiting.
type flusher struct {
	encoder *encoder
	cut     weir.Cut
	last    uint64    // sequence in the stream of the last acknowledged message
	beat    time.Time // of the last flush

	kick chan struct{} // someone waits: do not wait for the interval

	mu     sync.Mutex
	next   *flushGroup // of those who wait for the next flush to begin; nil: nobody
	ending error       // why no flush will begin any more; nil: they do
}

// flushGroup is those who wait for one flush.
type flushGroup struct {
	done chan struct{}
	err  error
}

func newFlusher(l life, partitions int, last uint64) flusher {
	return flusher{encoder: newEncoder(l, partitions), last: last, kick: make(chan struct{}, 1)}
}

// join enters the group of the next flush. Whatever was counted before is in
// that flush or an earlier one.
func (f *flusher) join() *flushGroup {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		f.next = &flushGroup{done: make(chan struct{})}
		if f.ending != nil {
			f.next.end(f.ending)
			return f.next
		}
		select {
		case f.kick <- struct{}{}:
		default:
		}
	}
	return f.next
}

// take is called when a flush begins; later callers of join wait for the next.
func (f *flusher) take() *flushGroup {
	f.mu.Lock()
	defer f.mu.Unlock()
	group := f.next
	f.next = nil
	return group
}

// finish fails those who wait for another flush, now and later.
func (f *flusher) finish(cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ending = cause
	f.next.end(cause)
}

func (g *flushGroup) end(err error) {
	if g != nil {
		g.err = err
		close(g.done)
	}
}

func (j *Journal) runFlusher(ctx context.Context) {
	ticker := time.NewTicker(j.cfg.FlushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			j.flusher.finish(context.Cause(ctx))
			return
		case <-ticker.C:
		case <-j.flusher.kick:
		}
		group := j.flusher.take()
		group.end(j.flush(ctx))
	}
}

// flush makes one flush of all partitions and returns when it is acknowledged.
func (j *Journal) flush(ctx context.Context) error {
	f := &j.flusher
	began := time.Now()
	f.encoder.begin(began)
	f.encoder.leaving = j.leaving.Load()
	states := j.snapshots.due(j.snapshots.kept.Load() > j.cfg.MaxBytes/4)
	var snaps []snapshot
	receipts := j.engine.CutReceipts(func() {
		for partition := range j.engine.Config().Partitions {
			withState := states[partition]
			j.cutPartition(partition, withState, &snaps)
		}
	})
	if f.encoder.empty() && len(receipts) == 0 && !f.encoder.leaving && (!j.cfg.clustered() || began.Sub(f.beat) < heartbeat) {
		f.encoder.cancel()
	} else {
		parts := f.encoder.end(receipts)
		if j.cfg.clustered() {
			j.ring.add(f.encoder.flush, parts)
		}
		if err := j.publish(ctx, parts); err != nil {
			return err
		}
		f.beat = began
		j.stats.flushed(time.Since(began))
	}
	if !j.cfg.clustered() {
		for i := range snaps {
			snaps[i].from = f.last // this flush is in the states
		}
	}
	j.snapshots.offer(snaps)
	return nil
}

// cutPartition puts a partition's new hits into the flush, and takes its state if
// it is asked for: then nobody else's hits are applied meanwhile.
func (j *Journal) cutPartition(partition int, withState bool, snaps *[]snapshot) {
	f := &j.flusher
	if withState {
		j.follower.mu.Lock()
		defer j.follower.mu.Unlock()
	}
	began := time.Now()
	j.engine.Cut(partition, &f.cut, withState)
	f.encoder.add(partition, f.cut.Deltas)
	f.encoder.addAdmissions(partition, f.cut.Admissions)
	if withState {
		j.stats.paused(time.Since(began))
		*snaps = append(*snaps, j.snapshotOf(partition))
	}
}

// snapshotOf is the partition as the last cut left it. The caller holds the
// follower's lock.
func (j *Journal) snapshotOf(partition int) snapshot {
	f := &j.flusher
	snap := snapshot{
		life: f.encoder.life, partition: partition, from: j.follower.audit.stream,
		positions: j.positionsOf(partition),
		state:     append([]byte(nil), f.cut.State...),
	}
	if partition == 0 {
		snap.receipts = j.engine.Receipts()
	}
	return snap
}

// positionsOf is how far a partition has the batches of all origins: its own as
// the last cut left them, the others' as they were applied.
func (j *Journal) positionsOf(partition int) []originPosition {
	e := j.flusher.encoder
	list := slices.DeleteFunc(j.follower.audit.positionsOf(partition), func(at originPosition) bool { return at.origin == e.origin })
	return append(list, originPosition{e.origin, position{e.epoch, e.seqs[partition], e.totals[partition]}})
}

// retryAfter is how long the flusher waits after a failure, at first and at most.
const (
	retryFirst = 20 * time.Millisecond
	retryMost  = 2 * time.Second
)

// publish sends the parts of a flush one after the other, each until it is
// acknowledged: it never drops one. It gives up only when the journal closes.
func (j *Journal) publish(ctx context.Context, parts [][]byte) error {
	for _, data := range parts {
		for wait := retryFirst; ; wait = min(2*wait, retryMost) {
			sequence, err := j.append(ctx, data)
			if err == nil {
				j.flusher.last = sequence
				j.stats.wrote(len(data))
				j.snapshots.grown.Add(int64(len(data)))
				j.snapshots.kept.Add(int64(len(data)))
				break
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			j.stats.failed(err)
			j.log.Error("journal: a flush could not be written and is tried again; hits are refused once the buffer is full",
				"error", err, "waiting", j.engine.Stats().Waiting)
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(wait):
			}
		}
	}
	j.stats.recovered()
	if err := j.marks.write(mark{epoch: j.life.epoch, flush: j.flusher.encoder.flush, stream: j.flusher.last}); err != nil {
		// The hits are on disk: only a cut below the last mark would be found now.
		j.log.Error("journal: the mark could not be written", "error", err)
	}
	return nil
}

// errFull is why the journal takes no more.
var errFull = errors.New("the data directory is at its size bound: raise --max-disk (MaxBytes)")

// append publishes a message, unless the journal has used its half of the data
// directory: the rest is for snapshots, without which it could never be trimmed.
func (j *Journal) append(ctx context.Context, data []byte) (uint64, error) {
	if j.snapshots.kept.Load()+int64(len(data)) > j.cfg.MaxBytes/2 {
		return 0, errFull
	}
	if err := j.revive(ctx); err != nil {
		return 0, err
	}
	sequence, err := j.publishWatched(ctx, data)
	if err != nil {
		j.suspect.Store(true)
	}
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == serverFull {
		err = fmt.Errorf("%w: %w", errFull, err)
	}
	return sequence, err
}

// publishWatched publishes, and after a second without an answer looks whether
// the server is one that will never give it.
func (j *Journal) publishWatched(ctx context.Context, data []byte) (uint64, error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	server := j.server
	if j.cfg.clustered() {
		return j.store.publish(ctx, data, clusterAskTimeout)
	}
	watch := time.AfterFunc(time.Second, func() {
		if err := server.Health(); err != nil {
			giveUp(err)
		}
	})
	defer watch.Stop()
	sequence, err := j.store.publish(ctx, data, askTimeout)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return sequence, err
}

// serverFull is JetStream's error code for a server at its size bound.
const serverFull = 10023
