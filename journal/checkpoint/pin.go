package checkpoint

import (
	"context"
	"errors"
	"time"
)

// pins keep the snapshots and the journal as they are while a backup is taken:
// no round of snapshots starts.
type pins struct {
	turn   chan struct{}           // holds the one backup at a time
	cancel context.CancelCauseFunc // ends it; nil: there is none
	over   error                   // why there will be none any more; nil: there may
}

// pinPoll is how often a backup looks whether the round of snapshots that it
// waits for has ended. Rounds take a flush for every few partitions.
const pinPoll = 20 * time.Millisecond

// Pin waits for the other backup, and for the round that is under way. cancel is
// called when rounds must go on.
func (c *Checkpointer) Pin(ctx context.Context, cancel context.CancelCauseFunc) error {
	select {
	case c.pins.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.mu.Lock()
	over := c.pins.over
	if over == nil {
		c.pins.cancel = cancel
	}
	c.mu.Unlock()
	if over != nil {
		<-c.pins.turn
		return over
	}
	for c.InRound() {
		select {
		case <-ctx.Done():
			c.Unpin()
			return context.Cause(ctx)
		case <-time.After(pinPoll):
		}
	}
	return nil
}

// Unpin ends what Pin began.
func (c *Checkpointer) Unpin() {
	c.mu.Lock()
	c.pins.cancel = nil
	c.mu.Unlock()
	<-c.pins.turn
}

// endPin ends the backup that is under way, if one is, so that rounds go on.
func (c *Checkpointer) endPin(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pins.cancel != nil {
		c.pins.cancel(cause)
		c.pins.cancel = nil
	}
}

// NoMorePins is endPin for good.
func (c *Checkpointer) NoMorePins(cause error) {
	c.endPin(cause)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pins.over = cause
}

// ErrTooSlow is why a backup is ended that keeps the journal from being trimmed.
var ErrTooSlow = errors.New("the backup was too slow: the journal must be trimmed, or it would fill the data directory: write the backup somewhere faster, or raise --max-disk")
