package server

import (
	"cmp"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/server/openapi"
	"github.com/weir-counter/weir/server/problem"
	"github.com/weir-counter/weir/service"
	"github.com/weir-counter/weir/service/parse"
)

type topQuestion struct {
	Window string `query:"window" doc:"The window, whole seconds from 1s to 1000000000s; default 5m. Not with align." example:"5m"`
	N      int    `query:"n" default:"10" minimum:"1" maximum:"10000" doc:"How many keys to list."`
	Prefix string `query:"prefix" doc:"Only keys that begin with this." example:"url:"`
	Align  string `query:"align" doc:"Of history, in place of window and at: hour, day, week (from Monday), month or year. The time is of whole ones, from that of from to that of to; N is 1000 at most then." example:"month"`
	From   string `query:"from" doc:"With align: the time begins with the span that this moment is in; default now. A duration before now may be written as -365d."`
	To     string `query:"to" doc:"With align: exclusive; the last span is whole. Default now, or the end of the span of from where that is later."`
	TZ     string `query:"tz" doc:"The time zone of align, by its name; default UTC." example:"Europe/Berlin"`
	At     string `query:"at" doc:"The end of the window; default now. A window is exact when it lies in the newest 511 s of its key; for older instants both of its ends lie in slots of up to 1 % of their age, and the bounds say so."`
	FreshParam
	ScopeParam
}

type topOutput struct{ Body api.TopAnswer }

func (s *Server) registerTop(doc *openapi.API) {
	openapi.Ask(doc, huma.Operation{
		OperationID: "top", Method: http.MethodGet, Path: "/v1/top",
		Summary:     "List the keys with the most hits in a window",
		Description: "In a window that ends now or at a time, or with `align` in a time of whole hours to years, of history. The reserved key `*` is not listed, and keys that begin with `limit:` only when `prefix` does.",
	}, []api.Code{api.CodeInvalidWindow, api.CodeInvalidTime, api.CodeInvalidParameter, api.CodeInvalidRange, api.CodeNoHistory, api.CodeNotHeld, api.CodeNotFresh, api.CodeClosed},
		func(ctx context.Context, q *topQuestion) (*topOutput, error) {
			answer, err := s.top(ctx, q)
			return &topOutput{answer}, problem.OrNil(err)
		})
}

func (s *Server) top(ctx context.Context, q *topQuestion) (none api.TopAnswer, err error) {
	if q.Align != "" || q.TZ != "" || q.From != "" || q.To != "" {
		return s.alignedTop(ctx, q)
	}
	query := service.TopQuery{N: q.N, Prefix: q.Prefix}
	if query.Window, err = service.ParseWindow("window", cmp.Or(q.Window, "5m")); err != nil {
		return none, err
	}
	if query.At, err = timeParam("at", q.At); err != nil {
		return none, err
	}
	if query.Fresh, err = service.ParseFresh(q.Fresh); err != nil {
		return none, err
	}
	if query.Scope, err = parse.ScopeOf(q.Scope); err != nil {
		return none, err
	}
	return s.service.Top(ctx, callerOf(ctx), query)
}

// alignedTop is top by the calendar.
func (s *Server) alignedTop(ctx context.Context, q *topQuestion) (none api.TopAnswer, err error) {
	query := service.AlignedTopQuery{Prefix: q.Prefix, N: q.N}
	for name, value := range map[string]string{"window": q.Window, "at": q.At} {
		if value != "" {
			return none, &service.Error{Code: api.CodeInvalidParameter, Field: name, Message: name + ": with align the time is from from to to, which have whole spans: leave " + name + " out"}
		}
	}
	if query.Spans, err = s.spansParam(q.Align, q.TZ, q.From, q.To, q.FreshParam, q.ScopeParam); err != nil {
		return none, err
	}
	return s.service.AlignedTop(ctx, callerOf(ctx), query)
}
