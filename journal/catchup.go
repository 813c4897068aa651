package journal

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-counter/weir/journal/join"
)

// Joined is the connection with the other nodes. It is the Journal's to close.
func (j *Journal) Joined() *join.Node { return j.server }

// catchUpPoll is how often CatchUp looks how far the follower is.
const catchUpPoll = 2 * time.Millisecond

// CatchUp returns when all is counted here that was acknowledged to any node before
// the call. It journals a flush of this node, be it empty, and waits until the
// journal was followed up to that: what stands before it is then applied, and what
// comes after it was not acknowledged when CatchUp was called. Only for a node
// among others.
func (j *Journal) CatchUp(ctx context.Context) error {
	j.flusher.speak.Store(true)
	group := j.flusher.join()
	select {
	case <-group.done:
	case <-ctx.Done():
		return fmt.Errorf("no flush was written: %w", context.Cause(ctx))
	}
	if group.err != nil {
		return group.err
	}
	poll := time.NewTicker(catchUpPoll)
	defer poll.Stop()
	for j.replica.next() <= group.last {
		select {
		case <-poll.C:
		case <-j.failed:
			return j.failure
		case <-ctx.Done():
			return fmt.Errorf("the journal is followed up to message %d, of %d: %w", j.replica.next()-1, group.last, context.Cause(ctx))
		}
	}
	return nil
}
