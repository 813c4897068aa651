package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/journal/datadir"
	"github.com/weir-counter/weir/journal/groupcommit"
	"github.com/weir-counter/weir/journal/replica"
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
			h.done <- j.takeOver(ctx, h.parts)
			continue
		case <-ticker.C:
		case <-j.waiters.Kicked():
		}
		group := j.waiters.Take()
		err := j.flush(ctx)
		if group != nil {
			group.Last = j.flusher.Last()
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
	j.lookForRoom(ctx)
	j.flusher.Begin(began, replica.FlushOptions{
		Leaving: j.leaving.Load(), Closing: j.closing.Load(), Speak: j.waiters.Speaks(), EvenEmpty: j.noteClockSet(), Due: j.checkpoints.Due,
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
		return groupcommit.ErrFull
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
			j.stats.wrote(len(data))
			wait = retryFirst
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		j.stats.failed(err)
		j.space.Fail(j.engine, whyDisk(err))
		j.logFailure(err)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
		wait = min(2*wait, replica.RetryMost)
	}
	if len(j.flusher.Parts()) > 0 {
		j.published()
	}
	return nil
}

// published tells who follows, and the watermark, what the journal has.
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

// watermark is how far the journal was acknowledged.
func (j *Journal) watermark() datadir.Watermark {
	return datadir.Watermark{Epoch: j.own.Epoch, Flush: j.replica.LastFlush(), Stream: j.flusher.Last()}
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
		err = fmt.Errorf("%w: %w", groupcommit.ErrFull, err)
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
		return j.store.Publish(ctx, data, clusterAskTimeout)
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

// serverFull is JetStream's error code for a server at its size bound.
const serverFull = 10023
