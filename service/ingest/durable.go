package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/service/caller"
	"github.com/weir-counter/weir/service/failure"
	"github.com/weir-counter/weir/service/tally"
)

// Who waits for the disk looks for the first time after firstLook whether it fails, and
// then every nextLook: nearly all are answered before.
const (
	firstLook = 100 * time.Millisecond
	nextLook  = 50 * time.Millisecond
)

// EnterDurable takes a place for a request that waits for the disk, before anything of it
// is counted. It fails when the wait would be in vain: on an ephemeral server, while the
// journal fails on a node that counts alone, or when too many wait. In a cluster a failure
// may be an election, which a wait outlasts: there it is in vain once somebody has waited
// for all of DurableTimeout. LeaveDurable must follow if it did not fail.
func (s *Service) EnterDurable(client caller.Caller) error {
	if err := s.parts.Storage.RefuseDurable(); err != nil {
		return err
	}
	failing := s.journalFailing()
	switch {
	case failing == nil:
		s.waitedInVain.Store(false)
	case failing.Refusing || s.waitedInVain.Load():
		s.requests.notDurable.Add(1)
		return &failure.Error{Code: api.CodeJournalFailing, Message: "nothing was counted, for it would not be durable: " + failing.Message}
	}
	return s.parts.Pools.Durable.Enter(client, 1)
}

// LeaveDurable gives the place back, after Sync.
func (s *Service) LeaveDurable(client caller.Caller) { s.parts.Pools.Durable.Leave(client, 1) }

// journalFailing is the alarm for which hits do not reach the disk; nil: there is none.
func (s *Service) journalFailing() *api.Alarm {
	for _, a := range s.parts.Storage.Alarms() {
		if a.Refusing || api.Code(a.Code) == api.CodeJournalFailing {
			return &a
		}
	}
	return nil
}

// failingError is why somebody waits no longer.
type failingError struct{ api.Alarm }

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
// CodeNotDurable, after DurableTimeout or once the journal fails. Where t counted
// nothing, it does nothing.
func (s *Service) Sync(ctx context.Context, t *tally.Tally) error {
	if t.Counted == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.parts.DurableTimeout)
	defer cancel()
	ctx, give := context.WithCancelCause(ctx)
	defer give(nil)
	look := time.AfterFunc(firstLook, func() { s.look(ctx, give) })
	defer look.Stop()
	err := s.parts.Storage.Sync(ctx)
	if err == nil {
		t.Durable = true
		return nil
	}
	s.requests.notDurable.Add(1)
	why := "were not on disk within " + units.FormatDuration(s.parts.DurableTimeout)
	failing := failingError{}
	switch {
	case errors.As(context.Cause(ctx), &failing):
		why = "are not on disk: " + failing.Message
	case errors.Is(err, context.DeadlineExceeded):
		s.waitedInVain.Store(true)
	}
	s.parts.Log.WarnContext(ctx, "hits were not on disk in time", "hits", t.Counted, "error", err)
	return &failure.Error{Code: api.CodeNotDurable, Hits: &t.HitsAnswer, Message: fmt.Sprintf(
		"the %d hits are counted, but %s; they may still get there; sent again they count again, unless it is with the same Idempotency-Key",
		t.Counted, why)}
}
