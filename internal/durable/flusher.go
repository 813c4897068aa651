package durable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/journal/checkpoint"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
)

func (j *Journal) runFlusher(ctx context.Context) {
	ticker := time.NewTicker(j.cfg.FlushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			j.waiters.Finish(context.Cause(ctx))
			return
		case h := <-j.handed:
			h.done <- j.takeOver(ctx, h)
			continue
		case <-ticker.C:
		case <-j.waiters.Kicked():
		}
		group, began := j.waiters.Take(), time.Now()
		err := j.flush(ctx)
		if group != nil {
			group.Last, group.Began, group.Ended = j.flusher.Last(), began, time.Now()
		}
		group.End(err)
	}
}

// flush makes one flush of all partitions and returns when it is acknowledged.
func (j *Journal) flush(ctx context.Context) error {
	if err := j.lookForFiles(); err != nil {
		return err
	}
	began, today := time.Now(), j.now()
	j.lookForSpace(ctx)
	j.flusher.Begin(began, replica.FlushOptions{
		CutOptions: replica.CutOptions{Leaving: j.leaving.Load(), Speak: j.waiters.Speaks(), EvenEmpty: j.noteClockSet(), Claims: j.claims.take()},
		Closing:    j.closing.Load(), Due: j.checkpoints.Due,
	})
	if err := j.publish(ctx); err != nil {
		return err
	}
	done := j.flusher.End()
	j.written.Store(&written{j.flusher.Last(), today})
	if done.Parts > 0 {
		j.stats.flushed(time.Since(began))
	}
	j.checkpoints.Offer(done.Due, done.Snaps, done.Later)
	if done.Quiet {
		return concurrency.ErrQueueFull
	}
	return nil
}

// retryFirst is how long the flusher waits after a first failure.
const retryFirst = 20 * time.Millisecond

// publish sends the parts of the flush under way one after the other, each until it is
// acknowledged: it never drops one. It gives up only when the journal closes, or its files
// are gone, where an acknowledgement means nothing.
func (j *Journal) publish(ctx context.Context) error {
	wait := retryFirst
	for data := j.flusher.Part(); data != nil; data = j.flusher.Part() {
		sequence, err := j.append(ctx, data)
		if gone := j.lookForFiles(); gone != nil {
			return gone
		}
		if err == nil {
			j.flusher.Acknowledged(sequence)
			select {
			case j.flushed <- flushed{sequence, data}:
			default: // the follower reads it
			}
			j.stats.wrote(len(data))
			wait = retryFirst
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		j.stats.failed(err)
		if offline := j.offline.Load(); offline != nil {
			j.space.Refuse(j.engine, whyOffline(*offline))
		} else {
			j.space.Fail(j.engine, whyDisk(err))
		}
		j.logFailure(err)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case unwritten := <-j.unwrote:
			unwritten <- j.flusher.More(time.Now())
		case <-time.After(wait):
		}
		wait = min(2*wait, replica.RetryMost)
	}
	if len(j.flusher.Parts()) > 0 {
		j.published()
	}
	return nil
}

// flushed is a message of this node that the journal has.
type flushed struct {
	sequence uint64
	data     []byte
}

// published lets followers and the watermark know what the journal has.
func (j *Journal) published() {
	j.stats.recovered()
	if j.cfg.clustered() {
		j.others.highWater.Notify(j.flusher.Last())
	}
	if err := j.marks.Write(j.watermark()); err != nil {
		// The hits are on disk: only a cut below the last mark would be found now.
		j.log.Error("journal: could not write the watermark file", "error", err)
	}
}

func (j *Journal) watermark() checkpoint.Watermark {
	return checkpoint.Watermark{Epoch: j.own.Epoch, Flush: j.replica.LastFlush(), Stream: j.flusher.Last()}
}

// logFailure says that a flush could not be written. The last heartbeat of a node that stops
// holds no hit: the last one of a cluster has nobody to write it with.
func (j *Journal) logFailure(err error) {
	waiting := j.engine.Stats().Waiting + j.flusher.Open()
	if j.closing.Load() && waiting == 0 {
		j.log.Info("journal: could not write the last heartbeat; will retry; no hit waits for it", "error", err)
		return
	}
	j.log.Error("journal: could not write a flush; will retry; hits are refused meanwhile, in a cluster once the buffer is full",
		"error", err, "waiting", waiting)
}

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
		err = fmt.Errorf("%w: %w", concurrency.ErrQueueFull, err)
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
		return j.publishElected(ctx, data)
	}
	watch := time.AfterFunc(time.Second, func() {
		if err := server.Health(); err != nil {
			giveUp(err)
		}
	})
	defer watch.Stop()
	sequence, err := j.store.Publish(ctx, data, askTimeout)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return sequence, err
}

// electedFirst is how long the first try may take after the stream has a new leader; the next ones may take twice as long each. It
// does not serve at once.
const electedFirst = 50 * time.Millisecond

// publishElected publishes to the leader of the stream, within clusterAskTimeout. What the leader before may have lost, it
// publishes again as soon as there is a new one, not once the time is over; what is there twice counts once.
func (j *Journal) publishElected(ctx context.Context, data []byte) (sequence uint64, err error) {
	until := time.Now().Add(clusterAskTimeout)
	for wait := clusterAskTimeout; ; {
		elected := j.elected.await()
		try, again := context.WithCancel(ctx)
		over := make(chan struct{})
		go func() {
			select {
			case <-elected:
				again()
			case <-over:
			}
		}()
		sequence, err = j.store.Publish(try, data, min(wait, time.Until(until)))
		news := try.Err() != nil && ctx.Err() == nil
		close(over)
		again()
		if err == nil || ctx.Err() != nil || !time.Now().Before(until) {
			return sequence, err
		}
		switch {
		case news:
			wait = electedFirst
		case wait == clusterAskTimeout:
			return sequence, err
		default:
			wait *= 2
		}
	}
}

// serverFull is JetStream's error code for a server at its size bound.
const serverFull = 10023

// ErrTrimmed is why flushes can't be read on from a position: the journal begins after it.
var ErrTrimmed = errors.New("the journal was trimmed beyond the position")

// ID is the journal's identity, which all its nodes know.
func (j *Journal) ID() uint64 { return j.store.ID() }

// Bounds are the first and the last message of the journal; an empty one has first = last+1.
func (j *Journal) Bounds(ctx context.Context) (first, last uint64, err error) {
	first, last, _, err = j.store.Bounds(ctx)
	return first, last, err
}

// Moment returns a message of the journal and a time. All hits that any node took until then are in
// the flushes up to that message, except hits of the nodes that are late.
func (j *Journal) Moment(ctx context.Context) (upTo uint64, asOf time.Time, late []replica.OriginStatus, err error) {
	if j.others != nil {
		asOf, late = j.LateOrigins()
		return j.Followed(), asOf, late, nil
	}
	asOf = j.now()
	if err := j.Sync(ctx); err != nil {
		return 0, asOf, nil, err
	}
	_, upTo, err = j.Bounds(ctx)
	return upTo, asOf, nil, err
}

// ReadFlushes reads the journal from where t stands up to a message, and calls f with each whole
// flush, in order. What f returns ends it; it goes on after that flush when it is called again.
// What is missing is asked for; what nobody has any more is passed over, and counted in t.Lost. The
// error wraps ErrTrimmed if the journal begins after t.
func (j *Journal) ReadFlushes(ctx context.Context, t *replica.TailFlushes, upTo uint64, f func(flush []record.Part) error) error {
	if t.Next() > upTo {
		return nil
	}
	first, err := j.reachesBack(ctx, t)
	if err != nil {
		return err
	}
	if err := t.Learn(ctx, j.store, first); err != nil {
		if trimmed := (*replica.TrimmedError)(nil); errors.As(err, &trimmed) {
			err = fmt.Errorf("%w: %w", ErrTrimmed, err)
		}
		return err
	}
	if err := j.store.Read(ctx, t.Next(), upTo, func(message uint64, data []byte) error {
		if message > t.Next() {
			if _, err := j.reachesBack(ctx, t); err != nil {
				return err
			}
		}
		return j.takeFlush(ctx, t, message, data, f)
	}); err != nil || t.Next() > upTo {
		return err
	}
	_, err = j.reachesBack(ctx, t)
	if err == nil {
		t.Skip(upTo)
	}
	return err
}

// reachesBack returns the first message of the journal, which must not be after the next one that t reads.
func (j *Journal) reachesBack(ctx context.Context, t *replica.TailFlushes) (first uint64, err error) {
	first, _, err = j.Bounds(ctx)
	if err == nil && t.Next() < first {
		err = fmt.Errorf("%w: message %d is wanted, the first is %d", ErrTrimmed, t.Next(), first)
	}
	return first, err
}

// takeFlush takes a message, and before it the messages that should have come before it and did not.
func (j *Journal) takeFlush(ctx context.Context, t *replica.TailFlushes, message uint64, data []byte, f func([]record.Part) error) error {
	p, err := record.DecodePart(data)
	if errors.Is(err, record.ErrDamaged) {
		t.Skip(message)
		return nil
	}
	if err != nil {
		return fmt.Errorf("journal message %d: %w", message, err)
	}
	for j.others != nil {
		flush, number, missing := t.Missing(p)
		if !missing {
			break
		}
		again, err := j.resent(ctx, p.Incarnation, flush, number)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			break // t counts it
		}
		if whole := t.Take(message-1, again); whole != nil {
			if err := f(whole); err != nil {
				return err
			}
		}
	}
	if whole := t.Take(message, p); whole != nil {
		return f(whole)
	}
	return nil
}

// resent asks an origin for a part of a flush, which may be this node.
func (j *Journal) resent(ctx context.Context, origin record.Incarnation, flush, number uint64) (p record.Part, err error) {
	data := []byte(nil)
	if origin == j.own {
		data = j.replica.Sent(flush, number)
	}
	if data == nil {
		if data, err = j.store.Source(ctx).Resend(origin, flush, number); err != nil {
			return p, err
		}
	}
	if p, err = record.DecodePart(data); err == nil && (p.Incarnation != origin || p.Flush != flush || p.Number != number) {
		err = fmt.Errorf("%w: it is another part", record.ErrDamaged)
	}
	return p, err
}

// StoredSnapshots returns the snapshots of a partition, the newest first, without the damaged ones.
func (j *Journal) StoredSnapshots(ctx context.Context, partition int) ([]record.StoredSnapshot, error) {
	list, _, err := j.store.SlotsOf(ctx, partition)
	return list, err
}

// ReadSnapshot reads and checks one. The error wraps record.ErrDamaged if it can't be used.
func (j *Journal) ReadSnapshot(ctx context.Context, stored record.StoredSnapshot) (record.Snapshot, error) {
	return j.store.GetSnapshot(ctx, stored)
}
