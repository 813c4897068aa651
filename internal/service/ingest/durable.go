package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/units"
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
func (s *Service) EnterDurable(client access.Caller) error {
	if err := s.parts.Storage.RefuseDurable(); err != nil {
		return err
	}
	failing := s.journalFailing()
	switch {
	case failing == nil:
		s.waitedInVain.Store(false)
	case failing.Refusing || s.waitedInVain.Load():
		s.requests.notDurable.Add(1)
		return &api.Error{Code: api.CodeJournalFailing, Message: "nothing was counted, for it would not be durable: " + failing.Message}
	}
	return s.parts.Pools.Durable.Enter(client, 1)
}

// LeaveDurable gives the place back, after Sync.
func (s *Service) LeaveDurable(client access.Caller) { s.parts.Pools.Durable.Leave(client, 1) }

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
func (s *Service) Sync(ctx context.Context, t *Tally) error {
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
	return &api.Error{Code: api.CodeNotDurable, Hits: &t.HitsAnswer, Message: fmt.Sprintf(
		"the %d hits are counted, but %s; they may still get there; sent again they count again, unless it is with the same Idempotency-Key",
		t.Counted, why)}
}

// Journal keeps an engine's hits on disk (durable.Journal). No method waits longer than its context.
type Journal interface {
	// Sync returns when every hit counted before the call is on disk, or else
	// an error: the hits then may reach the disk later, or not.
	Sync(ctx context.Context) error
	// Backup writes one file with every hit counted before the call.
	Backup(ctx context.Context, w io.Writer) error
	// Restore reads a backup and adds it to all counts (merge), or makes the counts what
	// the backup has (replace). It goes on when it is called again.
	Restore(ctx context.Context, backup io.Reader, mode api.RestoreMode) (api.Restored, error)
	// AddStats and AddNodes add what an answer says of the journal, and of the nodes that share it.
	AddStats(*api.StatsAnswer)
	AddNodes(context.Context, *api.ClusterAnswer)
	// Alarms are what is wrong now. It is called for each scrape, each /readyz, each
	// /v1/stats and each /v1/cluster, and waits for nobody.
	Alarms() []api.Alarm
}

// Storage is a journal (journaled), or one that keeps nothing (ephemeral).
type Storage interface {
	Journal
	// RefuseDurable is the error for a caller that wants hits on disk; nil: they get there.
	RefuseDurable() error
}

// StorageOf is the Storage of a journal, or with nil of none.
func StorageOf(j Journal) Storage {
	if j == nil {
		return ephemeral{}
	}
	return journaled{j}
}

type journaled struct{ Journal }

func (journaled) RefuseDurable() error { return nil }

// ephemeral is a Journal that keeps nothing, and says so.
type ephemeral struct{}

func (ephemeral) RefuseDurable() error {
	return &api.Error{Code: api.CodeEphemeral, Field: "durable",
		Message: "this server is ephemeral and keeps nothing on disk: start it without --ephemeral, or send hits without durable=true"}
}

func (e ephemeral) Sync(context.Context) error { return e.RefuseDurable() }

func (ephemeral) Backup(context.Context, io.Writer) error {
	return &api.Error{Code: api.CodeEphemeral, Message: "an ephemeral server keeps no data to back up: start it with --data"}
}

func (ephemeral) Restore(context.Context, io.Reader, api.RestoreMode) (api.Restored, error) {
	return api.Restored{}, &api.Error{Code: api.CodeEphemeral, Message: "an ephemeral server keeps no data: start it with --data"}
}

func (ephemeral) Alarms() []api.Alarm { return nil }

func (ephemeral) AddStats(*api.StatsAnswer) {}

func (ephemeral) AddNodes(_ context.Context, a *api.ClusterAnswer) { a.Mode = "ephemeral" }
