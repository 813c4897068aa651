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

type seriesQuestion struct {
	Key  string `query:"key" required:"true" doc:"The key to count. * counts all hits but those of limit: keys." example:"url:/home"`
	From string `query:"from" doc:"The start, exclusive; default an hour before to. The first window begins there when step divides the time to to, and else after it. A duration before now may be written as -365d. With align: the first span is the one that this moment is in; default 24 spans."`
	To   string `query:"to" doc:"The end, inclusive; default now. With align: exclusive; the last span is whole."`
	Step string `query:"step" doc:"The window of each point, whole seconds; default 1m. Not with align." example:"1m"`

	Align string `query:"align" doc:"Whole hours, days, weeks (from Monday), months or years in place of step: hour, day, week, month, year. From history where the server keeps one: exact, also years back." example:"day"`
	TZ    string `query:"tz" doc:"The time zone of align, by its name; default UTC." example:"Europe/Berlin"`
	FreshParam
	ScopeParam
}

type seriesOutput struct{ Body api.SeriesAnswer }

func (s *Server) registerSeries(doc *openapi.API) {
	openapi.Ask(doc, huma.Operation{
		OperationID: "series", Method: http.MethodGet, Path: "/v1/series",
		Summary:     "Count the hits of a key in adjoining windows",
		Description: "At most 10000 points. Those in the newest 511 s of the key are exact; for older ones both ends lie in slots of up to 1 % of their age, and the bounds say so. When step does not divide the time from `from` to `to`, the windows end at `to`, and the first one begins after `from`: `to - floor((to-from)/step)*step`.",
	}, []api.Code{api.CodeMissingKey, api.CodeInvalidKey, api.CodeInvalidWindow, api.CodeInvalidTime, api.CodeInvalidParameter, api.CodeInvalidRange, api.CodeNotHeld, api.CodeNotFresh, api.CodeClosed},
		func(ctx context.Context, q *seriesQuestion) (*seriesOutput, error) {
			answer, err := s.series(ctx, q)
			return &seriesOutput{answer}, problem.OrNil(err)
		})
}

func (s *Server) series(ctx context.Context, q *seriesQuestion) (none api.SeriesAnswer, err error) {
	if q.Align != "" || q.TZ != "" {
		return s.aligned(ctx, q)
	}
	query := service.SeriesQuery{Key: q.Key}
	if query.Step, err = service.ParseWindow("step", cmp.Or(q.Step, "1m")); err != nil {
		return none, err
	}
	if query.To, err = s.agoParam("to", q.To); err != nil {
		return none, err
	}
	if query.From, err = s.agoParam("from", q.From); err != nil {
		return none, err
	}
	if query.Fresh, err = service.ParseFresh(q.Fresh); err != nil {
		return none, err
	}
	if query.Scope, err = parse.ScopeOf(q.Scope); err != nil {
		return none, err
	}
	return s.service.Series(ctx, callerOf(ctx), query)
}

// aligned is series by the calendar.
func (s *Server) aligned(ctx context.Context, q *seriesQuestion) (none api.SeriesAnswer, err error) {
	query := service.AlignedQuery{Key: q.Key}
	if q.Step != "" && q.Align != "" {
		return none, &service.Error{Code: api.CodeInvalidParameter, Field: "step", Message: "step: align=" + q.Align + " says how long the spans are: give step or align, not both"}
	}
	if query.Spans, err = s.spansParam(q.Align, q.TZ, q.From, q.To, q.FreshParam, q.ScopeParam); err != nil {
		return none, err
	}
	return s.service.Aligned(ctx, callerOf(ctx), query)
}
