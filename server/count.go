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

type countQuestion struct {
	Key    []string `query:"key,explode" required:"true" doc:"The key to count; may be repeated. * counts all hits but those of limit: keys." example:"[\"url:/home\"]"`
	Window []string `query:"window,explode" doc:"The window, whole seconds from 1s to 1000000000s; may be repeated. Default 5m." example:"[\"5m\"]"`
	At     string   `query:"at" doc:"The end of the window; default now. A whole second stands for all of that second; with a fraction the moment is meant, and the bounds leave room for the two seconds that the window cuts. A window is exact when it lies in the newest 511 s of its key; for older instants both of its ends lie in slots of up to 1 % of their age, and the bounds say so. Where history is kept, a window that ended and whose edges are on whole hours of UTC (at=...T23:59:59Z and window=24h are a day) is answered from it, if that is closer: source says so."`
	FreshParam
	ScopeParam
	By string `query:"by" enum:"region" doc:"Beside the sum, the part of each region."`
}

type countOutput struct {
	Body api.OneOrCounts[api.CountAnswer]
}

type rateOutput struct {
	Body api.OneOrCounts[api.RateAnswer]
}

func (s *Server) registerCount(doc *openapi.API) {
	codes := []api.Code{api.CodeMissingKey, api.CodeInvalidKey, api.CodeInvalidWindow, api.CodeInvalidTime, api.CodeTooManyAnswers, api.CodeNotHeld, api.CodeNotFresh, api.CodeClosed}
	openapi.Ask(doc, huma.Operation{
		OperationID: "count", Method: http.MethodGet, Path: "/v1/count",
		Summary:     "Count the hits of keys in windows",
		Description: "A key that was never hit counts 0. When `key` or `window` is repeated the answer is `{\"counts\":[...]}`, for each key each window, all at the same time.",
	}, codes, func(ctx context.Context, q *countQuestion) (*countOutput, error) {
		query, err := q.read()
		if err != nil {
			return nil, problem.OrNil(err)
		}
		answers, err := s.service.Count(ctx, callerOf(ctx), query)
		return &countOutput{answers}, problem.OrNil(err)
	})
	openapi.Ask(doc, huma.Operation{
		OperationID: "rate", Method: http.MethodGet, Path: "/v1/rate",
		Summary:     "Count the hits of keys in windows, and per second",
		Description: "The answer of `/v1/count` with `per_second`, the mean rate over the window, and its bounds.",
	}, codes, func(ctx context.Context, q *countQuestion) (*rateOutput, error) {
		query, err := q.read()
		if err != nil {
			return nil, problem.OrNil(err)
		}
		answers, err := s.service.Rate(ctx, callerOf(ctx), query)
		return &rateOutput{answers}, problem.OrNil(err)
	})
}

// read reads a question.
func (q *countQuestion) read() (service.CountQuery, error) {
	var none service.CountQuery
	windows, err := windowParams(q.Window)
	if err != nil {
		return none, err
	}
	at, err := timeParam("at", q.At)
	if err != nil {
		return none, err
	}
	fresh, err := service.ParseFresh(q.Fresh)
	if err != nil {
		return none, err
	}
	scope, err := parse.ScopeOf(q.Scope)
	if err != nil {
		return none, err
	}
	by, err := parse.ByRegion(q.By)
	return service.CountQuery{Keys: q.Key, Windows: windows, At: at, Fresh: fresh, Scope: scope, ByRegion: by}, err
}
