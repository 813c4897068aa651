package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

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

// unwritten is how many entries are not in the journal yet.
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

// release gives back what open took, as far as it came.
func (j *Journal) release() error {
	var errs []error
	if j.others != nil {
		j.others.leave(j.log)
	}
	if j.server != nil {
		j.server.Close()
	}
	if j.others != nil && j.others.holders != nil {
		j.others.holders.Wait()
	}
	if j.marks != nil {
		errs = append(errs, j.marks.Close())
	}
	if j.lock != nil {
		errs = append(errs, j.lock.Release())
	}
	return errors.Join(errs...)
}

// finishRound waits for the round of snapshots that is under way.
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
