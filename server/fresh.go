package server

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/units"
)

// FreshParam is the question's wish for hits that other nodes have only just taken.
// Like Bounds it is exported for huma, and embedded in questions.
type FreshParam struct {
	Fresh string `query:"fresh" doc:"Answer only when all hits that any node took before this question are in, and wait at most so long for them: more than 0, at most 10s. 503 not_fresh, with the nodes that are missing, when they are not in by then. A server alone has all, always." example:"2s"`
}

// longestFresh is the longest wait for a fresh answer.
const longestFresh = 10 * time.Second

// NotFreshError says which nodes a fresh answer was waited for in vain.
type NotFreshError struct {
	Missing []string
	Reason  string
}

func (e *NotFreshError) Error() string { return e.Reason }

// asked is when a question is asked, and of what.
type asked struct {
	answers Answers
	now     time.Time
	asOf    time.Time // all hits until then are in; zero: as the answer says
}

// await waits for what a question wants to be in its answer. What is wrong with the
// question itself should be found before.
func (s *Server) await(ctx context.Context, q FreshParam) (asked, error) {
	if q.Fresh == "" {
		return asked{answers: s.answers, now: s.now()}, nil
	}
	within, err := units.ParseDuration(q.Fresh)
	switch {
	case err != nil:
		return asked{}, newProblem(api.CodeInvalidParameter, "fresh", "fresh: "+err.Error())
	case within <= 0 || within > longestFresh:
		return asked{}, newProblem(api.CodeInvalidParameter, "fresh", fmt.Sprintf("fresh of %s: must be more than 0 and at most %s", q.Fresh, units.FormatDuration(longestFresh)))
	}
	asOf := s.wall()
	if s.cfg.Cluster == nil {
		return asked{s.answers, s.now(), asOf}, nil
	}
	if !s.pools.fresh.enter(netip.Addr{}, 1) {
		return asked{}, s.pools.fresh.full()
	}
	defer s.pools.fresh.leave(netip.Addr{}, 1)
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	upTo, theirs, err := s.cfg.Cluster.Fresh(ctx)
	if err != nil {
		return asked{}, notFresh(err)
	}
	return asked{s.answers.After(upTo), s.latest(theirs), asOf}, nil
}

// at is the time that a question is about; zero means now.
func (a asked) at(t time.Time) time.Time {
	if t.IsZero() {
		return a.now
	}
	return t
}

// latest is now, or the clock of a node that is ahead, by no more than hits may be: its
// hits of this second are to be in the window.
func (s *Server) latest(theirs time.Time) time.Time {
	now := s.now()
	if most := now.Add(s.engine.Config().MaxAhead); theirs.After(most) {
		theirs = most
	}
	if theirs.After(now) {
		return theirs.Truncate(time.Second)
	}
	return now
}

// fresh is that of an answer: what was waited for is in it.
func (a asked) fresh(of Fresh) Fresh {
	if a.asOf.IsZero() {
		return of
	}
	return Fresh{AsOf: a.asOf}
}

func notFresh(err error) error {
	var missing *NotFreshError
	if errors.As(err, &missing) {
		p := newProblem(api.CodeNotFresh, "fresh", missing.Reason+": wait longer, or ask without fresh for what is known")
		p.Missing = missing.Missing
		return p
	}
	return newProblem(api.CodeClosed, "", "this node is stopping: ask another")
}
