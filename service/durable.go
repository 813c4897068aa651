package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/units"
)

// Who waits for the disk looks for the first time after firstLook whether it fails, and
// then every nextLook: nearly all are answered before.
const (
	firstLook = 100 * time.Millisecond
	nextLook  = 50 * time.Millisecond
)

// RefuseDurable is the error of a durable request that would wait in vain, before
// anything of it is counted; nil: it may wait. It does so while the journal fails on a node
// that counts alone. In a cluster that may be an election, which a wait outlasts: there it
// does once somebody has waited for all of DurableTimeout.
func (s *Service) RefuseDurable() error {
	failing := s.journalFailing()
	switch {
	case failing == nil:
		s.waitedInVain.Store(false)
		return nil
	case !failing.Refusing && !s.waitedInVain.Load():
		return nil
	}
	s.notDurable.Add(1)
	return &Error{Code: api.CodeJournalFailing, Message: "nothing was counted, for it would not be durable: " + failing.Message}
}

// journalFailing is the alarm for which hits do not reach the disk; nil: there is none.
func (s *Service) journalFailing() *Alarm {
	for _, a := range s.cfg.Journal.Alarms() {
		if a.Refusing || api.Code(a.Code) == api.CodeJournalFailing {
			return &a
		}
	}
	return nil
}

// failingError is why somebody waits no longer.
type failingError struct{ Alarm }

func (e failingError) Error() string { return e.Message }

// look ends a wait that has become vain, and looks again while it lasts.
func (s *Service) look(ctx context.Context, give context.CancelCauseFunc) {
	if ctx.Err() != nil {
		return
	}
	if a := s.journalFailing(); a != nil && a.Refusing {
		give(failingError{*a})
		return
	}
	time.AfterFunc(nextLook, func() { s.look(ctx, give) })
}

// Sync waits until what t counted is on disk, and says so in it; or fails with
// CodeNotDurable. There must be a journal.
func (s *Service) Sync(ctx context.Context, t *Tally) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.DurableTimeout)
	defer cancel()
	ctx, give := context.WithCancelCause(ctx)
	defer give(nil)
	look := time.AfterFunc(firstLook, func() { s.look(ctx, give) })
	defer look.Stop()
	err := s.cfg.Journal.Sync(ctx)
	if err == nil {
		t.Durable = true
		return nil
	}
	s.notDurable.Add(1)
	why := "were not on disk within " + units.FormatDuration(s.cfg.DurableTimeout)
	failing := failingError{}
	switch {
	case errors.As(context.Cause(ctx), &failing):
		why = "are not on disk: " + failing.Message
	case errors.Is(err, context.DeadlineExceeded):
		s.waitedInVain.Store(true)
	}
	s.log.WarnContext(ctx, "hits were not on disk in time", "hits", t.Counted, "error", err)
	return &Error{Code: api.CodeNotDurable, Message: fmt.Sprintf(
		"the %d hits are counted, but %s; they may still get there; sent again they count again, unless it is with the same Idempotency-Key",
		t.Counted, why)}
}

// NotDurable is how many durable requests were not on disk in time, or refused for that,
// since the start.
func (s *Service) NotDurable() uint64 { return s.notDurable.Load() }
