package service

import (
	"context"
	"errors"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service/backend"
)

// asked is when a question is asked, and of what.
type asked struct {
	of      *Service
	answers Answers
	now     time.Time // zero: of.Now, if a question is about it
	asOf    time.Time // all hits until then are in; zero: as the answer says
}

// await waits for what a question wants to be in its answer. What is wrong with the
// question itself should be found before.
func (s *Service) await(ctx context.Context, within time.Duration) (asked, error) {
	if within == 0 {
		return asked{of: s, answers: s.answers}, nil
	}
	return s.peers.await(ctx, within)
}

// at is the time that a question is about; zero means now.
func (a asked) at(t time.Time) time.Time {
	switch {
	case !t.IsZero():
		return t
	case a.now.IsZero():
		return a.of.Now()
	}
	return a.now
}

// latest is now, or the clock of a node that is ahead, by no more than hits may be: its
// hits of this second are to be in the window.
func (s *Service) latest(theirs time.Time) time.Time {
	now := s.Now()
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
	var missing *backend.NotFreshError
	if errors.As(err, &missing) {
		return &Error{Code: api.CodeNotFresh, Field: "fresh", Missing: missing.Missing,
			Message: missing.Reason + ": wait longer, or ask without fresh for what is known"}
	}
	return &Error{Code: api.CodeClosed, Message: "this node is stopping: ask another"}
}

// Freshness is that of this node.
func (s *Service) Freshness() api.Freshness { return s.peers.fresh().answer() }
