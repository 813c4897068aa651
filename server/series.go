package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
)

const defaultSpan = time.Hour

type seriesQuestion struct {
	Key  string `query:"key" required:"true" doc:"The key to count. * counts all hits but those of limit: keys." example:"url:/home"`
	From string `query:"from" doc:"The start, exclusive; default an hour before to. The first window begins there when step divides the time to to, and else after it."`
	To   string `query:"to" doc:"The end, inclusive; default now."`
	Step string `query:"step" default:"1m" doc:"The window of each point, whole seconds." example:"1m"`
	FreshParam
}

type seriesOutput struct{ Body api.SeriesAnswer }

func (s *Server) registerSeries(doc huma.API) {
	ask(s, doc, huma.Operation{
		OperationID: "series", Method: http.MethodGet, Path: "/v1/series",
		Summary:     "Count the hits of a key in adjoining windows",
		Description: "At most 10000 points. Those in the newest 511 s of the key are exact; for older ones both ends lie in slots of up to 1 % of their age, and the bounds say so. When step does not divide the time from `from` to `to`, the windows end at `to`, and the first one begins after `from`: `to - floor((to-from)/step)*step`.",
	}, []api.Code{api.CodeMissingKey, api.CodeInvalidKey, api.CodeInvalidWindow, api.CodeInvalidTime, api.CodeInvalidRange, api.CodeNotHeld, api.CodeNotFresh, api.CodeClosed},
		func(ctx context.Context, q *seriesQuestion) (*seriesOutput, error) {
			answer, err := s.series(ctx, q)
			return &seriesOutput{answer}, err
		})
}

// alignToEnd moves from to where the first of the steps that end at to begins,
// so that the newest hits are in the last point. A step or a span that Series
// refuses stays as it is.
func alignToEnd(from, to time.Time, step time.Duration) (first, last time.Time) {
	seconds := int64(step / time.Second)
	if seconds < 1 || to.Unix()-from.Unix() < seconds {
		return from, to
	}
	steps := (to.Unix() - from.Unix()) / seconds
	return time.Unix(to.Unix()-steps*seconds, 0), time.Unix(to.Unix(), 0)
}

func (s *Server) series(ctx context.Context, q *seriesQuestion) (api.SeriesAnswer, error) {
	var none api.SeriesAnswer
	if err := keyParam(q.Key); err != nil {
		return none, err
	}
	step, err := windowParam("step", q.Step)
	if err != nil {
		return none, err
	}
	to, err := timeParam("to", q.To)
	if err != nil {
		return none, err
	}
	from, err := timeParam("from", q.From)
	if err != nil {
		return none, err
	}
	asked, err := s.await(ctx, q.FreshParam)
	if err != nil {
		return none, err
	}
	if to = asked.at(to); from.IsZero() {
		from = to.Add(-defaultSpan)
	}
	from, to = alignToEnd(from, to, step)
	points, fresh, err := asked.answers.Series(ctx, q.Key, from, to, step)
	if err != nil {
		return none, asProblem(err)
	}
	fresh = asked.fresh(fresh)
	answer := api.SeriesAnswer{
		Key: q.Key, From: api.Time{Time: from}, To: api.Time{Time: to}, StepSeconds: int64(step / time.Second),
		Points: make([]api.Point, len(points)), Freshness: fresh.answer(),
	}
	for i, p := range points {
		answer.Points[i] = api.Point{At: api.Time{Time: p.At}, Bounds: boundsOf(p.Count, fresh)}
	}
	return answer, nil
}
