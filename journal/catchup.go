package journal

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-counter/weir/cluster/join"
)

// Joined is the connection with the other nodes. It is the Journal's to close.
func (j *Journal) Joined() *join.Node { return j.server }

// catchUpPoll is how often CatchUp looks how far the follower is.
const catchUpPoll = 2 * time.Millisecond

// CatchUp returns when all is counted here that was acknowledged to any node before
// the call. It journals a flush of this node, be it empty, and waits until the
// journal was followed up to that: what stands before it is then applied, and what
// comes after it was not acknowledged when CatchUp was called. Only for a node
// in a cluster.
func (j *Journal) CatchUp(ctx context.Context) error {
	group := j.waiters.JoinSpeaking()
	select {
	case <-group.Done:
	case <-ctx.Done():
		return fmt.Errorf("no flush was written: %w", context.Cause(ctx))
	}
	if group.Err != nil {
		return group.Err
	}
	return j.awaitFollowed(ctx, group.Last)
}

// awaitFollowed returns when all up to a message of the journal was applied.
func (j *Journal) awaitFollowed(ctx context.Context, last uint64) error {
	poll := time.NewTicker(catchUpPoll)
	defer poll.Stop()
	for j.replica.Next() <= last {
		select {
		case <-poll.C:
		case <-j.failed:
			return j.failure
		case <-ctx.Done():
			return fmt.Errorf("the journal is followed up to message %d, of %d: %w", j.replica.Next()-1, last, context.Cause(ctx))
		}
	}
	return nil
}

// Followed is the last message of the journal that was applied here.
func (j *Journal) Followed() uint64 { return j.replica.Next() - 1 }
