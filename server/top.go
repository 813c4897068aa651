package server

import (
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
	Window string `query:"window" default:"5m" doc:"The window, whole seconds from 1s to 1000000000s." example:"5m"`
	N      int    `query:"n" default:"10" minimum:"1" maximum:"10000" doc:"How many keys to list."`
	Prefix string `query:"prefix" doc:"Only keys that begin with this." example:"url:"`
	At     string `query:"at" doc:"The end of the window; default now. A window is exact when it lies in the newest 511 s of its key; for older instants both of its ends lie in slots of up to 1 % of their age, and the bounds say so."`
	FreshParam
	ScopeParam
}

type topOutput struct{ Body api.TopAnswer }

func (s *Server) registerTop(doc *openapi.API) {
	openapi.Ask(doc, huma.Operation{
		OperationID: "top", Method: http.MethodGet, Path: "/v1/top",
		Summary:     "List the keys with the most hits in a window",
		Description: "The reserved key `*` is not listed, and keys that begin with `limit:` only when `prefix` does.",
	}, []api.Code{api.CodeInvalidWindow, api.CodeInvalidTime, api.CodeNotHeld, api.CodeNotFresh, api.CodeClosed},
		func(ctx context.Context, q *topQuestion) (*topOutput, error) {
			answer, err := s.top(ctx, q)
			return &topOutput{answer}, problem.OrNil(err)
		})
}

func (s *Server) top(ctx context.Context, q *topQuestion) (none api.TopAnswer, err error) {
	query := service.TopQuery{N: q.N, Prefix: q.Prefix}
	if query.Window, err = service.ParseWindow("window", q.Window); err != nil {
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
