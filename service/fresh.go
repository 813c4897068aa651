package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/units"
)

// longestFresh is the longest wait for a fresh answer.
const longestFresh = 10 * time.Second

// NotFreshError says which nodes a fresh answer was waited for in vain.
type NotFreshError struct {
	Missing []string
	Reason  string
}

func (e *NotFreshError) Error() string { return e.Reason }

// ParseFresh reads how long a question waits for a fresh answer; "" is 0, not at all.
func ParseFresh(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	within, err := units.ParseDuration(text)
	switch {
	case err != nil:
		return 0, &Error{Code: api.CodeInvalidParameter, Field: "fresh", Message: "fresh: " + err.Error()}
	case within <= 0 || within > longestFresh:
		return 0, &Error{Code: api.CodeInvalidParameter, Field: "fresh",
			Message: fmt.Sprintf("fresh of %s: must be more than 0 and at most %s", text, units.FormatDuration(longestFresh))}
	}
	return within, nil
}

// asked is when a question is asked, and of what.
type asked struct {
	answers Answers
	now     time.Time
	asOf    time.Time // all hits until then are in; zero: as the answer says
}

// await waits for what a question wants to be in its answer. What is wrong with the
// question itself should be found before.
func (s *Service) await(ctx context.Context, within time.Duration) (asked, error) {
	if within == 0 {
		return asked{answers: s.answers, now: s.Now()}, nil
	}
	asOf := s.wall()
	if s.cfg.Cluster == nil {
		return asked{s.answers, s.Now(), asOf}, nil
	}
	if !s.Pools.Fresh.Enter(Caller{}, 1) {
		return asked{}, s.Pools.Fresh.Full()
	}
	defer s.Pools.Fresh.Leave(Caller{}, 1)
	ctx, cancel := context.WithTimeout(ctx, min(within, longestFresh))
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
	var missing *NotFreshError
	if errors.As(err, &missing) {
		return &Error{Code: api.CodeNotFresh, Field: "fresh", Missing: missing.Missing,
			Message: missing.Reason + ": wait longer, or ask without fresh for what is known"}
	}
	return &Error{Code: api.CodeClosed, Message: "this node is stopping: ask another"}
}
