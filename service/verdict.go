package service

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weir-counter/weir/api"
)

// Verdict ends a request of hits, once all that it has was counted: it is the error of one
// of which nothing could be counted, or that did not end well, and nil otherwise. end is
// why no further hit could be read, as an *Error, or counted, as Hit returned it; nil: there was
// none. The error says what was counted before.
func (s *Service) Verdict(t *Tally, end error) error {
	s.requests.rejected.Add(uint64(t.RejectedLines))
	s.requests.overloaded.Add(uint64(t.overloaded))
	e := t.verdict(end)
	if e == nil {
		return nil
	}
	if t.Line > 0 {
		e.Hits = &t.HitsAnswer
	}
	return e
}

func (t *Tally) verdict(end error) *Error {
	var broken *Error
	switch {
	case errors.As(end, &broken):
		e := *broken
		if t.Counted > 0 {
			e.Message += fmt.Sprintf("; the %d hits before that were counted", t.Counted)
		}
		return &e
	case end != nil:
		return AsError(end)
	case t.Counted > 0:
		return nil
	case t.RetryFrom > 0:
		return &Error{Code: t.stopped.Code, RetryAfter: t.wait, Message: "nothing was counted: " + t.stopped.Message}
	case t.forbidden > 0 && t.forbidden == t.RejectedLines:
		return &Error{Code: api.CodeForbidden, Field: "key", Message: "nothing was counted: " + t.Rejected[0].Message}
	case t.over > 0 && t.over == t.RejectedLines:
		return &Error{Code: api.CodeCeiling, RetryAfter: t.wait, Message: "nothing was counted: " + t.Rejected[0].Message}
	case t.RejectedLines > 0:
		first := t.Rejected[0]
		what := fmt.Sprintf("none of the %d lines could be counted", t.RejectedLines)
		if t.RejectedLines == 1 {
			what = "the hit could not be counted"
		}
		return &Error{Code: api.CodeNothingCounted, Message: fmt.Sprintf("%s; line %d: %s", what, first.Line, first.Message)}
	case t.TooLate > 0:
		what := fmt.Sprintf("all %d hits are", t.TooLate)
		if t.TooLate == 1 {
			what = "the hit is"
		}
		return &Error{Code: api.CodeTooLate, Message: what + " older than the retention"}
	}
	return &Error{Code: api.CodeEmptyBody, Message: "the body has no hits: send lines `key [n [at]]`, NDJSON, or JSON"}
}

// requests counts what became of requests of hits.
type requests struct{ rejected, overloaded, replayed, notDurable atomic.Uint64 }

// RequestStats are the figures of requests of hits, since the start.
type RequestStats struct {
	Rejected   uint64 // lines that were not understood, not allowed or not taken
	Overloaded uint64 // those of them that were refused because the journal was behind
	Replayed   uint64 // requests that came again under their idempotency key
	NotDurable uint64 // durable ones that were not on disk in time, or refused for that
}

// Requests are those figures now, for metrics.
func (s *Service) Requests() RequestStats {
	r := &s.requests
	return RequestStats{r.rejected.Load(), r.overloaded.Load(), r.replayed.Load(), r.notDurable.Load()}
}
