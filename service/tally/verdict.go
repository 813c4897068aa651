package tally

import (
	"errors"
	"fmt"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service/failure"
)

// Verdict is the error that the request ends with: see Service.Verdict.
func (t *Tally) Verdict(end error) *failure.Error {
	if end == nil && t.Counted > 0 {
		return nil
	}
	var broken *failure.Error
	switch {
	case errors.As(end, &broken):
		e := *broken
		if t.Counted > 0 {
			e.Message += fmt.Sprintf("; the %d hits before that were counted", t.Counted)
		}
		return &e
	case end != nil:
		return failure.As(end)
	case t.RetryFrom > 0:
		return &failure.Error{Code: t.stopped.Code, RetryAfter: t.wait, Message: "nothing was counted: " + t.stopped.Message}
	case t.forbidden > 0 && t.forbidden == t.RejectedLines:
		return &failure.Error{Code: api.CodeForbidden, Field: "key", Message: "nothing was counted: " + t.Rejected[0].Message}
	case t.over > 0 && t.over == t.RejectedLines:
		return &failure.Error{Code: api.CodeCeiling, RetryAfter: t.wait, Message: "nothing was counted: " + t.Rejected[0].Message}
	case t.RejectedLines > 0:
		first := t.Rejected[0]
		what := fmt.Sprintf("none of the %d lines could be counted", t.RejectedLines)
		if t.RejectedLines == 1 {
			what = "the hit could not be counted"
		}
		return &failure.Error{Code: api.CodeNothingCounted, Message: fmt.Sprintf("%s; line %d: %s", what, first.Line, first.Message)}
	case t.TooLate > 0:
		what := fmt.Sprintf("all %d hits are", t.TooLate)
		if t.TooLate == 1 {
			what = "the hit is"
		}
		return &failure.Error{Code: api.CodeTooLate, Message: what + " older than what the server keeps (--retention, with history --history-keep)"}
	}
	return &failure.Error{Code: api.CodeEmptyBody, Message: "the body has no hits: send lines `key [n [at]]`, NDJSON, or JSON"}
}
