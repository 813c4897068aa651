// Package failure is why a request fails: one type of error for all doors, with one of the codes of
// package api. Each door maps the code to its protocol once.
//
// Invariant: a message says what went wrong and what to do, and names nothing that the
// caller may not know. Package service, and all rooms in it, fail with this type alone.
package request

import (
	"context"
	"errors"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/units"
)

// Error is why a request failed: the one error type of package service.
type Error struct {
	Code    api.Code // each door maps it once
	Field   string   // the parameter at fault, may be empty
	Message string   // what went wrong and what to do about it
	Missing []string // of CodeNotFresh: the nodes whose newer hits may be missing

	// RetryAfter is of CodeCeiling: when there is room again.
	RetryAfter time.Duration

	// Hits is what became of the hits of a request; nil: none of them was read, or it had
	// none.
	Hits *api.HitsAnswer
}

func (e *Error) Error() string { return e.Message }

// As is err as an *Error: that of the engine or of a context is turned into one.
func As(err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	var e *weir.Error
	if errors.As(err, &e) {
		return &Error{Code: api.Code(e.Code), Field: e.Field, Message: e.Message}
	}
	if errors.Is(err, context.Canceled) {
		return &Error{Code: api.CodeClientGone, Message: "the client did not wait for the answer"}
	}
	return &Error{Code: api.CodeInternal, Message: "the server failed to answer; its log says why"}
}

// Clip keeps an echo of a caller's own words short.
func Clip(s string) string { return units.Clip(s, 100) }
