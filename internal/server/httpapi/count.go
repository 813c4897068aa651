package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/service/queries"
	servicerequest "github.com/weir-counter/weir/internal/service/request"
)

type countQuestion struct {
	Key    []string `query:"key,explode" required:"true" doc:"The key to count; may be repeated. * counts all hits except of limit: keys." example:"[\"url:/home\"]"`
	Window []string `query:"window,explode" doc:"The window, whole seconds from 1s to 1000000000s; may be repeated. Default 5m." example:"[\"5m\"]"`
	At     string   `query:"at" doc:"The end of the window; default now. A whole second stands for all of that second; with a fraction the moment is meant, and the bounds include the two seconds that the window cuts. A window is exact when it lies in the newest 511 s of its key; for older instants both of its ends lie in slots of up to 1 % of their age, and the bounds say so. Where history is kept, a window that ended and whose edges are on whole hours of UTC (at=...T23:59:59Z and window=24h are a day) is answered from it, if that is closer: source says so."`
	FreshParam
	ScopeParam
	By string `query:"by" enum:"region" doc:"In addition to the sum, the part of each region."`
}

type countOutput struct {
	Body api.OneOrCounts[api.CountAnswer]
}

type rateOutput struct {
	Body api.OneOrCounts[api.RateAnswer]
}

func (s *Server) registerCount(doc *API) {
	codes := []api.Code{api.CodeMissingKey, api.CodeInvalidKey, api.CodeInvalidWindow, api.CodeInvalidTime, api.CodeTooManyAnswers, api.CodeNotHeld, api.CodeNotFresh, api.CodeClosed}
	AskView(doc, huma.Operation{
		OperationID: "count", Method: http.MethodGet, Path: "/v1/count",
		Summary:     "Count the hits of keys in windows",
		Description: "A key that was never hit counts 0. When `key` or `window` is repeated the answer is `{\"counts\":[...]}`, for each key each window, all at the same time.",
	}, codes, func(ctx context.Context, q *countQuestion) (*countOutput, error) {
		query, err := q.read()
		if err != nil {
			return nil, ProblemOrNil(err)
		}
		answers, err := s.service.Count(ctx, callerOf(ctx), query)
		return &countOutput{answers}, ProblemOrNil(err)
	})
	AskView(doc, huma.Operation{
		OperationID: "rate", Method: http.MethodGet, Path: "/v1/rate",
		Summary:     "Count the hits of keys in windows, and per second",
		Description: "The answer of `/v1/count` with `per_second`, the mean rate over the window, and its bounds.",
	}, codes, func(ctx context.Context, q *countQuestion) (*rateOutput, error) {
		query, err := q.read()
		if err != nil {
			return nil, ProblemOrNil(err)
		}
		answers, err := s.service.Rate(ctx, callerOf(ctx), query)
		return &rateOutput{answers}, ProblemOrNil(err)
	})
}

// read reads a question.
func (q *countQuestion) read() (queries.CountQuery, error) {
	var none queries.CountQuery
	windows, err := windowParams(q.Window)
	if err != nil {
		return none, err
	}
	at, err := timeParam("at", q.At)
	if err != nil {
		return none, err
	}
	fresh, err := servicerequest.ParseFresh(q.Fresh)
	if err != nil {
		return none, err
	}
	scope, err := servicerequest.ScopeOf(q.Scope)
	if err != nil {
		return none, err
	}
	by, err := servicerequest.ParseByRegion(q.By)
	return queries.CountQuery{Keys: q.Key, Windows: windows, At: at, Fresh: fresh, Scope: scope, ByRegion: by}, err
}

type seriesQuestion struct {
	Key  string `query:"key" required:"true" doc:"The key to count. * counts all hits except of limit: keys." example:"url:/home"`
	From string `query:"from" doc:"The start, exclusive; default an hour before to. The first window begins there when step divides the time to to, and else after it. A duration before now may be written as -365d. With align: the first span is the one that this moment is in; default 24 spans."`
	To   string `query:"to" doc:"The end, inclusive; default now. With align: exclusive; the last span is whole."`
	Step string `query:"step" doc:"The window of each point, whole seconds; default 1m. Not with align." example:"1m"`

	Align string `query:"align" doc:"Whole hours, days, weeks (from Monday), months or years in place of step: hour, day, week, month, year. From history where the server keeps one: exact, also years back." example:"day"`
	TZ    string `query:"tz" doc:"The time zone of align, by its name; default UTC." example:"Europe/Berlin"`
	FreshParam
	ScopeParam
}

type seriesOutput struct{ Body api.SeriesAnswer }

func (s *Server) registerSeries(doc *API) {
	AskView(doc, huma.Operation{
		OperationID: "series", Method: http.MethodGet, Path: "/v1/series",
		Summary:     "Count the hits of a key in adjoining windows",
		Description: "At most 10000 points. Those in the newest 511 s of the key are exact; for older ones both ends lie in slots of up to 1 % of their age, and the bounds say so. When step does not divide the time from `from` to `to`, the windows end at `to`, and the first one begins after `from`: `to - floor((to-from)/step)*step`.",
	}, []api.Code{api.CodeMissingKey, api.CodeInvalidKey, api.CodeInvalidWindow, api.CodeInvalidTime, api.CodeInvalidParameter, api.CodeInvalidRange, api.CodeNotHeld, api.CodeNotFresh, api.CodeClosed},
		func(ctx context.Context, q *seriesQuestion) (*seriesOutput, error) {
			answer, err := s.series(ctx, q)
			return &seriesOutput{answer}, ProblemOrNil(err)
		})
}

func (s *Server) series(ctx context.Context, q *seriesQuestion) (none api.SeriesAnswer, err error) {
	if q.Align != "" || q.TZ != "" {
		return s.aligned(ctx, q)
	}
	query := queries.SeriesQuery{Key: q.Key}
	if query.Step, err = servicerequest.ParseWindow("step", cmp.Or(q.Step, "1m")); err != nil {
		return none, err
	}
	if query.To, err = s.agoParam("to", q.To); err != nil {
		return none, err
	}
	if query.From, err = s.agoParam("from", q.From); err != nil {
		return none, err
	}
	if query.Fresh, err = servicerequest.ParseFresh(q.Fresh); err != nil {
		return none, err
	}
	if query.Scope, err = servicerequest.ScopeOf(q.Scope); err != nil {
		return none, err
	}
	return s.service.Series(ctx, callerOf(ctx), query)
}

// aligned is series by the calendar.
func (s *Server) aligned(ctx context.Context, q *seriesQuestion) (none api.SeriesAnswer, err error) {
	query := queries.AlignedQuery{Key: q.Key}
	if q.Step != "" && q.Align != "" {
		return none, &api.Error{Code: api.CodeInvalidParameter, Field: "step", Message: "step: align=" + q.Align + " says how long the spans are: give step or align, not both"}
	}
	if query.Spans, err = s.spansParam(q.Align, q.TZ, q.From, q.To, q.FreshParam, q.ScopeParam); err != nil {
		return none, err
	}
	return s.service.Aligned(ctx, callerOf(ctx), query)
}

type topQuestion struct {
	Window string `query:"window" doc:"The window, whole seconds from 1s to 1000000000s; default 5m. Not with align." example:"5m"`
	N      int    `query:"n" default:"10" minimum:"1" maximum:"10000" doc:"How many keys to list."`
	Prefix string `query:"prefix" doc:"Only keys that begin with this." example:"url:"`
	Align  string `query:"align" doc:"Whole spans of history instead of window and at: hour, day, week (from Monday), month or year, from the span of from to the span of to. N is at most 1000." example:"month"`
	From   string `query:"from" doc:"With align: the time begins with the span that this moment is in; default now. A duration before now may be written as -365d."`
	To     string `query:"to" doc:"With align: exclusive; the last span is whole. Default now, or the end of the span of from where that is later."`
	TZ     string `query:"tz" doc:"The time zone of align, by its name; default UTC." example:"Europe/Berlin"`
	At     string `query:"at" doc:"The end of the window; default now. A window is exact when it lies in the newest 511 s of its key; for older instants both of its ends lie in slots of up to 1 % of their age, and the bounds say so."`
	FreshParam
	ScopeParam
}

type topOutput struct{ Body api.TopAnswer }

func (s *Server) registerTop(doc *API) {
	AskView(doc, huma.Operation{
		OperationID: "top", Method: http.MethodGet, Path: "/v1/top",
		Summary:     "List the keys with the most hits in a window",
		Description: "In a window that ends now or at a time, or with `align` in a time of whole hours to years, of history. The reserved key `*` is not listed, and keys that begin with `limit:` only when `prefix` does.",
	}, []api.Code{api.CodeInvalidWindow, api.CodeInvalidTime, api.CodeInvalidParameter, api.CodeInvalidRange, api.CodeNoHistory, api.CodeNotHeld, api.CodeNotFresh, api.CodeClosed},
		func(ctx context.Context, q *topQuestion) (*topOutput, error) {
			answer, err := s.top(ctx, q)
			return &topOutput{answer}, ProblemOrNil(err)
		})
}

func (s *Server) top(ctx context.Context, q *topQuestion) (none api.TopAnswer, err error) {
	if q.Align != "" || q.TZ != "" || q.From != "" || q.To != "" {
		return s.alignedTop(ctx, q)
	}
	query := queries.TopQuery{N: q.N, Prefix: q.Prefix}
	if query.Window, err = servicerequest.ParseWindow("window", cmp.Or(q.Window, "5m")); err != nil {
		return none, err
	}
	if query.At, err = timeParam("at", q.At); err != nil {
		return none, err
	}
	if query.Fresh, err = servicerequest.ParseFresh(q.Fresh); err != nil {
		return none, err
	}
	if query.Scope, err = servicerequest.ScopeOf(q.Scope); err != nil {
		return none, err
	}
	return s.service.Top(ctx, callerOf(ctx), query)
}

// alignedTop is top by the calendar.
func (s *Server) alignedTop(ctx context.Context, q *topQuestion) (none api.TopAnswer, err error) {
	query := queries.AlignedTopQuery{Prefix: q.Prefix, N: q.N}
	for name, value := range map[string]string{"window": q.Window, "at": q.At} {
		if value != "" {
			return none, &api.Error{Code: api.CodeInvalidParameter, Field: name, Message: name + ": with align the time is from from to to, which have whole spans: leave " + name + " out"}
		}
	}
	if query.Spans, err = s.spansParam(q.Align, q.TZ, q.From, q.To, q.FreshParam, q.ScopeParam); err != nil {
		return none, err
	}
	return s.service.AlignedTop(ctx, callerOf(ctx), query)
}

// windowParams reads the windows of a question.
func windowParams(values []string) ([]time.Duration, error) {
	windows := make([]time.Duration, len(values))
	for i, s := range values {
		w, err := servicerequest.ParseWindow("window", s)
		if err != nil {
			return nil, err
		}
		windows[i] = w
	}
	return windows, nil
}

// timeParam reads a time; empty is zero, which stands for now.
func timeParam(field, value string) (time.Time, error) {
	return servicerequest.ParseTime(field, unspace(value))
}

// agoParam is timeParam that also takes a duration before now, -365d.
func (s *Server) agoParam(field, value string) (time.Time, error) {
	return servicerequest.ParseAgo(field, unspace(value), s.service.Now())
}

// spansParam are the spans of align, and whose hits an answer about them has.
func (s *Server) spansParam(align, tz, from, to string, fresh FreshParam, scope ScopeParam) (q queries.Spans, err error) {
	if q.Unit, q.Zone, err = servicerequest.ParseAlign(align, tz); err != nil {
		return q, err
	}
	if q.To, err = s.agoParam("to", to); err != nil {
		return q, err
	}
	if q.From, err = s.agoParam("from", from); err != nil {
		return q, err
	}
	if q.Fresh, err = servicerequest.ParseFresh(fresh.Fresh); err != nil {
		return q, err
	}
	q.Scope, err = servicerequest.ScopeOf(scope.Scope)
	return q, err
}

// unspace puts back the plus of a zone such as +02:00: in a query a raw plus
// means a space.
func unspace(s string) string {
	if i := len(s) - len(" 02:00"); i > 0 && s[i] == ' ' {
		return s[:i] + "+" + s[i+1:]
	}
	return s
}

// ScopeParam says whose hits the answer has. It is exported for huma, and embedded in questions.
type ScopeParam struct {
	Scope string `query:"scope" enum:"node,region,global" doc:"Which hits are counted: node: held by this node; region: of its region; global: of all regions. Default: global if the server has a --region, otherwise region."`
}

// FreshParam is the question's wish for hits that other nodes have only just taken.
// It is exported for huma, and embedded in questions.
type FreshParam struct {
	Fresh string `query:"fresh" doc:"Answer only when all hits that any node took before this question are in, and wait at most so long for them: more than 0, at most 10s. 503 not_fresh, with the nodes that are missing, when they are not in by then. A server alone has all, always." example:"2s"`
}
