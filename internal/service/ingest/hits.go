// Package ingest takes hits: it says what became of a request of them, counts a repeated request once, and lets a
// client wait until its hits are on disk.
package ingest

import (
	"context"
	"fmt"
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
)

// CheckBatch refuses a request of more than MaxBatch hits before any of them counts: who
// sends too much sends all of it again, in parts, and nothing counts twice.
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

// Hit counts n hits of a key that CheckHitKey finds nothing wrong with, at a time. What becomes of them is
// noted in t: a hit that the engine does not take is no error. It fails when no further
// hit can be counted: give that to Verdict. The engine keeps a copy of the key if it keeps
// it: this is the path of millions a second, and allocates nothing.
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
	return s.parts.Engine.Expect(expected, keys)
}

// HitExpected is Hit of a key that is expected.
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

// KnowsID tells whether an id of a key was seen, as far as this node knows.
func (s *Service) KnowsID(key string, id uint64) bool { return s.parts.Engine.KnowsID(key, id) }

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
	Replayed   uint64 `metric:"weir_idempotent_replays_total" doc:"Requests that came again under their Idempotency-Key, and counted nothing."`
	NotDurable uint64 `metric:"weir_not_durable_requests_total" doc:"Durable requests whose hits were counted, but not on disk in time."`
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
	stored, repeated, refused := s.parts.Engine.RecordedOnce(ctx, client.String(), client.Own(key), fingerprint, func(recorded *replication.RequestRecorder) []byte {
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

// Fingerprint tells requests under the same idempotency key apart, by their content and
// the kind that it is written in. It is kept on disk: the same request must have the same
// one in every build.
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
	Storage Storage
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

// New is a Service of parts.
func New(p Parts) *Service { return &Service{parts: p} }
