// Package request reads what requests say as text, the same at every listener, and maps what they fail with to one type of
// error, with one of the codes of package api. Each listener maps the code to its protocol once.
//
// Invariant: a message says what went wrong and what to do, and names nothing that the caller may not know.
package request

import (
	"context"
	"errors"
	"log/slog"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/units"
)

// As is err as an *api.Error, with what callers have added to its message. An error of the engine or of a context is
// turned into one.
func As(err error) *api.Error {
	var own *api.Error
	if errors.As(err, &own) {
		if same, is := err.(*api.Error); is && same == own { //nolint:errorlint // what was added to it is told apart
			return own
		}
		whole := *own
		whole.Message = err.Error()
		return &whole
	}
	var e *engine.Error
	if errors.As(err, &e) {
		return &api.Error{Code: e.Code, Field: e.Field, Message: e.Message}
	}
	if errors.Is(err, context.Canceled) {
		return &api.Error{Code: api.CodeClientGone, Message: "the client did not wait for the answer"}
	}
	return &api.Error{Code: api.CodeInternal, Message: "the server failed to answer; its log says why"}
}

// Explain returns err if it is nil or says itself what a client is to know. Any other is logged as what happened, and answered
// by instead.
func Explain(ctx context.Context, log *slog.Logger, err error, instead *api.Error, what string, args ...any) error {
	if _, is := errors.AsType[*api.Error](err); is || err == nil {
		return err
	}
	log.ErrorContext(ctx, what, append(args, "error", err)...)
	return instead
}

// Clip keeps an echo of a caller's own words short.
func Clip(s string) string { return units.Clip(s, 100) }
