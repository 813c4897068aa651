package sources

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service/backend"
	"github.com/weir-counter/weir/service/failure"
)

// Asked is when a question is asked, and of what.
type Asked struct {
	of      *Sources
	Answers Answers
	now     time.Time // zero: of.Now, if a question is about it
	asOf    time.Time // all hits until then are in; zero: as the answer says
}

// Await waits for what a question wants to be in its answer. What is wrong with the
// question itself should be found before.
func (s *Sources) Await(ctx context.Context, within time.Duration) (Asked, error) {
	if within == 0 {
		return Asked{of: s, Answers: s.own}, nil
	}
	return s.peers.await(ctx, within)
}

// At is the time that a question is about; zero means now.
func (a Asked) At(t time.Time) time.Time {
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

// Fresh is that of an answer: what was waited for is in it.
func (a Asked) Fresh(of Fresh) Fresh {
	if a.asOf.IsZero() {
		return of
	}
	return Fresh{AsOf: a.asOf}
}

// AboutKey is Fresh for an answer about a key: with the regions that do not tell it.
func (a Asked) AboutKey(of Fresh, key string) Fresh {
	of = a.Fresh(of)
	of.Untold = a.untold(func(r *backend.Region) bool { return r.Tells(key) })
	return of
}

// AboutPrefixes is Fresh for an answer about all keys that begin so.
func (a Asked) AboutPrefixes(of Fresh, prefixes []string) Fresh {
	of = a.Fresh(of)
	of.Untold = a.untold(func(r *backend.Region) bool {
		return !slices.ContainsFunc(prefixes, func(prefix string) bool { return !r.TellsAll(prefix) })
	})
	return of
}

// untold are the regions that do not tell all keys, by name, of which tells is false.
func (a Asked) untold(tells func(*backend.Region) bool) (names []string) {
	w, is := a.Answers.(*Worldwide)
	if !is {
		return nil
	}
	for i := range w.choosy {
		if r := &w.choosy[i]; !tells(r) {
			names = append(names, r.Name)
		}
	}
	return names
}

func notFresh(err error) error {
	var missing *backend.NotFreshError
	if errors.As(err, &missing) {
		return &failure.Error{Code: api.CodeNotFresh, Field: "fresh", Missing: missing.Missing,
			Message: missing.Reason + ": wait longer, or ask without fresh for what is known"}
	}
	return &failure.Error{Code: api.CodeClosed, Message: "this node is stopping: ask another"}
}
