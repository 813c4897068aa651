package queries

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/request"
)

// Asked is when a question is asked, and of what.
type Asked struct {
	sources *Sources
	Answers Answers
	present time.Time // zero: of.Now, if a question is about it
	upTo    uint64    // message of the journal that the answers must have; 0: any
	asOf    time.Time // all hits until then are in; zero: as the answer says
	until   time.Time // of fresh; zero: nothing is waited for
}

// Await waits for what a question wants to be in its answer: for within, all hits that any node took before. What is wrong
// with the question itself should be found before.
func (s *Sources) Await(ctx context.Context, within time.Duration) (Asked, error) {
	asked := Asked{sources: s, Answers: s.own}
	if within == 0 {
		return asked, nil
	}
	asked.asOf = s.Wall()
	if s.cluster == nil {
		asked.present = s.Now()
		return asked, nil
	}
	if err := s.pools.Fresh.Enter(access.Caller{}, 1); err != nil {
		return Asked{}, err
	}
	defer s.pools.Fresh.Leave(access.Caller{}, 1)
	asked.until = time.Now().Add(min(within, request.LongestFresh))
	ctx, cancel := context.WithDeadline(ctx, asked.until)
	defer cancel()
	upTo, theirs, err := s.cluster.Fresh(ctx)
	if err != nil {
		return Asked{}, notFresh(err)
	}
	asked.present, asked.upTo = s.latest(theirs), upTo
	return asked, nil
}

// At is the time that a question is about, which field names; zero means now. A time that no hit may have yet is an
// error: its count would still change, so no answer about it is exact.
func (a Asked) At(field string, t time.Time) (time.Time, error) {
	if t.IsZero() {
		return a.now(), nil
	}
	return t, a.sources.notAhead(field, t)
}

// counts asks for counts that include everything that was waited for. Other nodes may take what is left of fresh to have it,
// and answerLeast at least.
func (a *Asked) counts(ctx context.Context, questions []api.CountQuestion, into []engine.Count) ([]engine.Count, api.Freshness, error) {
	if a.upTo > 0 {
		var cancel context.CancelFunc
		ctx, cancel = a.bound(ctx, answerLeast)
		defer cancel()
	}
	return a.Answers.Counts(ctx, a.upTo, questions, into)
}

// bound is ctx for as long as other nodes may take: what is left of fresh, and least at least.
func (a *Asked) bound(ctx context.Context, least time.Duration) (context.Context, context.CancelFunc) {
	until := time.Now().Add(least)
	if a.until.After(until) {
		until = a.until
	}
	return context.WithDeadline(ctx, until)
}

// answerLeast is how long other nodes have for an answer in any case.
const answerLeast = time.Second

// now is the time of a question that names none.
func (a Asked) now() time.Time {
	if a.present.IsZero() {
		return a.sources.Now()
	}
	return a.present
}

// notAhead refuses a time after the latest that a hit may have.
func (s *Sources) notAhead(field string, t time.Time) error {
	latest := s.Now()
	if wall := s.Wall(); wall.After(latest) { // the newest hit may be older, where it is what now means
		latest = wall
	}
	if !t.After(latest.Add(s.engine.Config().MaxAhead + time.Second)) {
		return nil
	}
	return &api.Error{Code: api.CodeInvalidParameter, Field: field,
		Message: fmt.Sprintf("%s is in the future, where hits can still come: ask for a time up to now, or leave %s out", t.UTC().Format(time.RFC3339), field)}
}

// latest returns now, or the clock of a node that is ahead, so that the window has that node's hits of this second. It
// is at most MaxAhead after now.
func (s *Sources) latest(theirs time.Time) time.Time {
	now := s.Now()
	if most := now.Add(s.engine.Config().MaxAhead); theirs.After(most) {
		theirs = most
	}
	if theirs.After(now) {
		return theirs.Truncate(time.Second)
	}
	return now
}

// Fresh returns the freshness of an answer, which includes everything that was waited for.
func (a Asked) Fresh(fresh api.Freshness) api.Freshness {
	if a.asOf.IsZero() {
		return fresh
	}
	return api.Freshness{AsOf: api.Millis(a.asOf)}
}

func notFresh(err error) error {
	if _, ok := errors.AsType[*api.Error](err); ok {
		return err
	}
	return &api.Error{Code: api.CodeClosed, Message: "this node is stopping: ask another node"}
}

// freshnessEvery is how old a Freshness may be: it only says too little. The journal may
// be busy with what it missed: then one question waits for it, and not all.
const freshnessEvery = 50 * time.Millisecond

// Freshness says how new the hits are that are counted here. Call it before the counts that it is to describe.
func (s *Sources) Freshness() api.Freshness {
	if s.cluster == nil {
		return api.Freshness{AsOf: api.Millis(s.Wall())}
	}
	return s.last.Get(freshnessEvery, s.cluster.Freshness)
}

// AboutDenial is what a denial of just now knew of other nodes: nothing is allocated where no node is late.
func (s *Sources) AboutDenial(now time.Time) api.DenialKnowledge {
	if s.cluster == nil {
		return api.DenialKnowledge{AsOf: api.Millis(now)}
	}
	fresh := s.Freshness()
	about := api.DenialKnowledge{AsOf: fresh.AsOf}
	for _, late := range fresh.Late {
		about.Late = append(about.Late, late.Node)
	}
	return about
}

// AddReady adds what is to say of other nodes on whether this one is ready.
func (s *Sources) AddReady(a *api.Ready) {
	if s.cluster != nil {
		fresh := s.Freshness()
		a.Freshness = &fresh
	}
}
