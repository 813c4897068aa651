// Package ingest takes hits: it says what became of a request of them, counts a repeated request once, and lets a
// client wait until its hits are on disk.
package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/distinct"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/activity"
	"github.com/weir-counter/weir/internal/units"
)

// CheckBatch refuses a request of more than MaxBatch hits before any of them counts. So a client can send all of
// them again, in parts, and nothing counts twice.
func (s *Service) CheckBatch(hits int) error {
	if hits <= s.parts.MaxBatch {
		return nil
	}
	return &api.Error{Code: api.CodeTooManyLines,
		Message: fmt.Sprintf("the body has more than %d lines: nothing was counted, send it in parts", s.parts.MaxBatch)}
}

// Ingest begins a request of hits, whose Tally is t. It fails when the caller may count none.
func (s *Service) Ingest(c access.Caller, t *Tally) error {
	may, err := s.parts.Gate.Enter(c, auth.Ingest)
	t.Reset(may)
	return err
}

// Hit counts n hits of a key that CheckHitKey finds nothing wrong with, at a time. What becomes of them is noted in t:
// a hit that the engine does not take is no error. It fails when no further hit can be counted: give that to Verdict.
// The engine keeps a copy of the key if it keeps it: this is the path of millions a second, and allocates nothing.
func (s *Service) Hit(t *Tally, at time.Time, key string, n uint64) error {
	if !t.Admits(s.parts.Engine, key) {
		return nil
	}
	outcome, err := s.parts.Engine.HitAt(at, key, n)
	return s.took(t, at, key, n, outcome, err)
}

// Expect appends to expected the keys that HitExpected will count next, and returns it: with some dozens of them, each
// costs less. It counts nothing.
func (s *Service) Expect(expected []engine.Expected, keys []string) []engine.Expected {
	return s.parts.Engine.Keyspace().Expect(expected, keys)
}

func (s *Service) HitExpected(t *Tally, at time.Time, key engine.Expected, n uint64) error {
	if !t.Admits(s.parts.Engine, key.Key()) {
		return nil
	}
	outcome, err := s.parts.Engine.HitExpected(at, key, n)
	return s.took(t, at, key.Key(), n, outcome, err)
}

// HitDistinct is HitExpected of a hit that carries an id, of which only the hash is kept (engine.HashID).
func (s *Service) HitDistinct(t *Tally, at time.Time, key engine.Expected, n, id uint64) error {
	if !t.Admits(s.parts.Engine, key.Key()) {
		return nil
	}
	outcome, err := s.parts.Engine.HitDistinct(at, key, n, id)
	return s.took(t, at, key.Key(), n, outcome, err)
}

// KnowsID reports whether an id of a key was seen, as far as this node knows.
func (s *Service) KnowsID(key string, id uint64) bool {
	return s.parts.Engine.Keyspace().KnowsID(key, id)
}

// HasIDs reports whether a key has ids, as far as this node knows.
func (s *Service) HasIDs(key string) bool { return s.parts.Engine.Keyspace().HasIDs(key) }

// AddDistinct adds all ids of a set to a key, and counts no hit. Like Hit it notes in t what it refuses.
func (s *Service) AddDistinct(t *Tally, key string, set *distinct.Set) error {
	if !t.Admits(s.parts.Engine, key) {
		return nil
	}
	return t.Took(0, engine.Counted, s.parts.Engine.AddDistinct(key, set))
}

// HitSampled is Hit of n hits of which nobody saw added: a sampled line stands for them.
func (s *Service) HitSampled(t *Tally, at time.Time, key string, n, added uint64) error {
	if !t.Admits(s.parts.Engine, key) {
		return nil
	}
	outcome, err := s.parts.Engine.HitSampled(at, key, n, added)
	return s.took(t, at, key, n, outcome, err)
}

// took notes what the engine did with hits.
func (s *Service) took(t *Tally, at time.Time, key string, n uint64, outcome engine.Outcome, err error) error {
	if err == nil && outcome != engine.TooLate {
		s.parts.Live.Hit(at, key, n)
		if t.recorded != nil {
			t.recorded.Add(at.Unix(), key, t.removals, n)
		}
	}
	return t.Took(n, outcome, err)
}

// Verdict ends a request of hits, once all that it has was counted. It fails if nothing could be counted, or if the
// request did not end well. The end is why no further hit could be read, as an *api.Error, or counted, as Hit returned
// it; nil: there was none. The error says what was counted before.
func (s *Service) Verdict(t *Tally, end error) error {
	s.requests.rejected.Add(uint64(t.RejectedLines))
	s.requests.overloaded.Add(uint64(t.Overloaded))
	e := t.Verdict(end)
	if e == nil {
		return nil
	}
	if t.Line > 0 {
		e.Hits = &t.HitsAnswer
	}
	return e
}

// requests counts what became of requests of hits.
type requests struct{ rejected, overloaded, replayed, notDurable atomic.Uint64 }

// RequestStats are the figures of requests of hits, since the start.
type RequestStats struct {
	Rejected   uint64 `metric:"weir_rejected_lines_total" doc:"Hits of any listener that were invalid or not permitted: lines of POST /v1/hits, or keys of RESP commands."`
	Overloaded uint64 `metric:"weir_overloaded_lines_total" doc:"Hits of any listener that were refused because the journal was behind."`
	Replayed   uint64 `metric:"weir_idempotent_replays_total" doc:"Repeated requests (Idempotency-Key), which counted nothing."`
	NotDurable uint64 `metric:"weir_not_durable_requests_total" doc:"Durable requests whose hits were counted but did not reach the disk in time."`
}

// Requests are those figures now, for metrics.
func (s *Service) Requests() RequestStats {
	r := &s.requests
	return RequestStats{r.rejected.Load(), r.overloaded.Load(), r.replayed.Load(), r.notDurable.Load()}
}

// Once counts a request of hits under an idempotency key: count does, and returns what Verdict did. A request that
// comes again within ten minutes counts nothing: t and the error are then what the first one left, and repeated is
// true. Fingerprints distinguish requests under the same key: see Fingerprint. A request of which nothing was counted
// is not remembered. The journal waits while count runs, so that it must not wait for anybody: a listener reads the
// request as a whole before.
func (s *Service) Once(ctx context.Context, client access.Caller, key string, fingerprint uint64, t *Tally, count func() error) (repeated bool, err error) {
	stored, repeated, refused := s.parts.Engine.Receipts().Once(ctx, client.String(), client.Own(key), fingerprint, func(recorded *replication.RequestRecorder) []byte {
		t.recorded = recorded
		defer func() { t.recorded = nil }()
		if err = count(); t.Counted == 0 {
			return nil // so that it may be sent again
		}
		return t.Receipt(err)
	})
	switch {
	case refused != nil:
		return false, refused
	case repeated:
		s.requests.replayed.Add(1)
		first, err := t.Recall(stored)
		if err != nil {
			s.parts.Log.Error("could not read the stored answer of an idempotent request", "error", err)
			return true, err
		}
		return true, first
	}
	return false, err
}

// Advance counts hits of a topic: count does, and returns the move of the position that they make. Both are in one flush. As with
// Once, the journal waits while count runs.
func (s *Service) Advance(topic replication.RequestID, t *Tally, count func() replication.Move) {
	s.parts.Engine.Receipts().Advance(topic, func(recorded *replication.RequestRecorder) replication.Move {
		t.recorded = recorded
		defer func() { t.recorded = nil }()
		return count()
	})
}

// Fingerprint tells requests under the same idempotency key apart, by their content and the kind that it is written in.
// It is kept on disk: the same request must have the same one in every build.
func Fingerprint(kind byte, content []byte) uint64 {
	d := xxhash.New()
	_, _ = d.Write([]byte{kind}) // a hash takes everything
	_, _ = d.Write(content)
	return d.Sum64()
}

// Parts are what a Service works with. All must be given.
type Parts struct {
	Engine  *engine.Engine
	Gate    *access.Gate
	Storage Journal
	Pools   *access.Pools
	Log     *slog.Logger
	Live    *activity.Log // gets each hit

	MaxBatch       int           // hits of one request
	DurableTimeout time.Duration // bounds the wait for the disk
}

// Service takes hits.
type Service struct {
	parts    Parts
	requests requests

	// waitedInVain: the journal fails, and somebody has waited for DurableTimeout since.
	waitedInVain atomic.Bool
}

func New(p Parts) *Service { return &Service{parts: p} }

// Who waits for the disk looks for the first time after firstLook whether it fails, and
// then every nextLook: nearly all are answered before.
const (
	firstLook = 100 * time.Millisecond
	nextLook  = 50 * time.Millisecond
)

// EnterDurable takes a place for a request that waits for the disk, before anything of it is counted. It fails when the
// wait would be in vain: on an ephemeral server, while the journal fails on a node that counts alone, or when too many
// wait. In a cluster a failure may be an election, which a wait outlasts: there it is in vain once somebody has waited
// for all of DurableTimeout. LeaveDurable must follow if it did not fail.
func (s *Service) EnterDurable(client access.Caller) error {
	if _, none := s.parts.Storage.(ephemeral); none {
		return &api.Error{Code: api.CodeEphemeral, Field: "durable",
			Message: "this server is ephemeral and keeps nothing on disk: start it without --ephemeral, or send hits without durable=true"}
	}
	failing := s.journalFailing()
	switch {
	case failing == nil:
		s.waitedInVain.Store(false)
	case failing.Refusing || s.waitedInVain.Load():
		s.requests.notDurable.Add(1)
		return &api.Error{Code: api.CodeJournalFailing, Message: "nothing was counted, because it would not be durable: " + failing.Message}
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

// Sync waits until what t counted is on disk, and says so in it; or fails with CodeNotDurable, after DurableTimeout or
// once the journal fails. Where t counted nothing, it does nothing.
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

// Flushed waits until all that was counted and decided here is on disk, if this server keeps anything there.
func (s *Service) Flushed(ctx context.Context) error { return s.parts.Storage.Sync(ctx) }

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

// StorageOf returns a journal, or for nil one that keeps nothing.
func StorageOf(j Journal) Journal {
	if j == nil {
		return ephemeral{}
	}
	return j
}

// ephemeral is a Journal that keeps nothing, and says so.
type ephemeral struct{}

func (ephemeral) Sync(context.Context) error { return nil } // who wants more is refused by EnterDurable

func (ephemeral) Backup(context.Context, io.Writer) error {
	return &api.Error{Code: api.CodeEphemeral, Message: "an ephemeral server has nothing to back up: start it with --data"}
}

func (ephemeral) Restore(context.Context, io.Reader, api.RestoreMode) (api.Restored, error) {
	return api.Restored{}, &api.Error{Code: api.CodeEphemeral, Message: "an ephemeral server keeps no data: start it with --data"}
}

func (ephemeral) Alarms() []api.Alarm { return nil }

func (ephemeral) AddStats(*api.StatsAnswer) {}

func (ephemeral) AddNodes(_ context.Context, a *api.ClusterAnswer) { a.Mode = "ephemeral" }
