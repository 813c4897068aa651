package journal

import (
	"context"
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

// pin waits for the other backup, and for the round that is under way. cancel is
// called when rounds must go on.
func (s *snapshotter) pin(ctx context.Context, cancel context.CancelCauseFunc) error {
	select {
	case s.pins.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.mu.Lock()
	over := s.pins.over
	if over == nil {
		s.pins.cancel = cancel
	}
	s.mu.Unlock()
	if over != nil {
		<-s.pins.turn
		return over
	}
	for s.inRound() {
		select {
		case <-ctx.Done():
			s.unpin()
			return context.Cause(ctx)
		case <-time.After(pinPoll):
		}
	}
	return nil
}

func (s *snapshotter) unpin() {
	s.mu.Lock()
	s.pins.cancel = nil
	s.mu.Unlock()
	<-s.pins.turn
}

// endPin ends the backup that is under way, if one is, so that rounds go on.
func (s *snapshotter) endPin(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pins.cancel != nil {
		s.pins.cancel(cause)
		s.pins.cancel = nil
	}
}

// noMorePins is endPin for good.
func (s *snapshotter) noMorePins(cause error) {
	s.endPin(cause)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pins.over = cause
}
