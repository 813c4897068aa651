package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// flusher is the state of the goroutine that moves hits from the engine to the
// stream. One flush is under way at a time; hits meanwhile gather in the engine,
// aggregated and bounded by its MaxWaiting.
type flusher struct {
	last uint64 // sequence in the stream of the last acknowledged message

	kick    chan struct{}           // someone waits: do not wait for the interval
	open    atomic.Int64            // entries of flushes that are not acknowledged: what would be lost with them
	speak   atomic.Bool             // the next flush is written even if empty
	written atomic.Pointer[written] // of this life; nil: not even its hello

	mu     sync.Mutex
	next   *flushGroup // of those who wait for the next flush to begin; nil: nobody
	ending error       // why no flush will begin any more; nil: they do
}

// flushGroup is those who wait for one flush.
type flushGroup struct {
	done chan struct{}
	err  error
	last uint64 // flusher.last, after the flush
}

func newFlusher(last uint64) flusher {
	return flusher{last: last, kick: make(chan struct{}, 1)}
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

// hurry begins the next flush at once, though nobody waits for it to end.
func (f *flusher) hurry() {
	select {
	case f.kick <- struct{}{}:
	default:
	}
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
		case h := <-j.handed:
			h.done <- j.takeOver(ctx, h.parts)
			continue
		case <-ticker.C:
		case <-j.flusher.kick:
		}
		group := j.flusher.take()
		err := j.flush(ctx)
		if group != nil {
			group.last = j.flusher.last
		}
		group.end(err)
	}
}

// flush makes one flush of all partitions and returns when it is acknowledged. It
// waits for the store alone, never for room: see room.
func (j *Journal) flush(ctx context.Context) error {
	began := time.Now()
	j.lookForRoom(ctx)
	r, kept := j.room(), j.snapshots.kept.Load()
	as := r.flushing(kept, j.closing.Load())
	if j.flusher.speak.Swap(false) {
		j.replica.beat = time.Time{}
	}
	due := j.snapshots.dueNow(as.haste)
	cut := j.replica.cutAll(began, cutAs{leaving: j.leaving.Load(), states: due, quiet: as.quiet})
	j.flusher.open.Add(int64(cut.entries))
	if len(cut.parts) > 0 {
		j.boundWaiting(int64(sizeOf(cut.parts)))
		if err := j.publish(ctx, cut.parts); err != nil {
			return err
		}
		j.flusher.open.Store(0)
		j.flusher.written.Store(&written{j.replica.encoder.flush, began})
		j.stats.flushed(time.Since(began))
	}
	j.boundWaiting(0)
	if !j.cfg.clustered() {
		for i := range cut.snaps {
			cut.snaps[i].from = j.flusher.last // this flush is in the states
		}
	}
	j.snapshots.offer(due, cut.snaps, j.replica.later(due, cut.snaps))
	if as.quiet {
		return errFull
	}
	return nil
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
				j.snapshots.kept.Add(int64(len(data) + messageBytes))
				break
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			j.stats.failed(err)
			j.refuseWaiting()
			j.log.Error("journal: could not write a flush; will retry; hits are refused meanwhile, in a cluster once the buffer is full",
				"error", err, "waiting", j.engine.Stats().Waiting)
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(wait):
			}
		}
	}
	j.stats.recovered()
	if j.cfg.clustered() {
		j.tell(j.flusher.last)
	}
	if err := j.marks.write(mark{epoch: j.life.epoch, flush: j.replica.encoder.flush, stream: j.flusher.last}); err != nil {
		// The hits are on disk: only a cut below the last mark would be found now.
		j.log.Error("journal: could not write the watermark file", "error", err)
	}
	return nil
}

// append publishes a message.
func (j *Journal) append(ctx context.Context, data []byte) (uint64, error) {
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
