package reads

import (
	"context"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
	"github.com/weir-counter/weir/service/caller"
	"github.com/weir-counter/weir/service/failure"
	"github.com/weir-counter/weir/service/parse"
	"github.com/weir-counter/weir/service/sources"
)

const defaultSpan = time.Hour

// SeriesQuery asks for the hits of a key, window by window.
type SeriesQuery struct {
	Key      string
	From, To time.Time     // zero: an hour before To; Now
	Step     time.Duration // whole seconds
	Fresh    time.Duration // as of a CountQuery
	Scope    parse.Scope
}

// Series answers for the adjoining windows of Step that end at To.
func (s *Service) Series(ctx context.Context, c caller.Caller, q SeriesQuery) (api.SeriesAnswer, error) {
	may, err := s.parts.Gate.Enter(c, auth.Read)
	if err != nil {
		return api.SeriesAnswer{}, err
	}
	if err := parse.Named(q.Key); err != nil {
		return api.SeriesAnswer{}, err
	}
	if err := may.CheckKey(q.Key); err != nil {
		return api.SeriesAnswer{}, err
	}
	asked, err := s.parts.Sources.Within(ctx, q.Scope, q.Fresh)
	if err != nil {
		return api.SeriesAnswer{}, err
	}
	to, from := asked.At(q.To), q.From
	if from.IsZero() {
		from = to.Add(-defaultSpan)
	}
	from, to = alignToEnd(from, to, q.Step)
	points, fresh, err := asked.Answers.Series(ctx, q.Key, from, to, q.Step)
	if err != nil {
		return api.SeriesAnswer{}, failure.As(err)
	}
	fresh = asked.AboutKey(fresh, q.Key)
	answer := api.SeriesAnswer{
		Key: q.Key, From: api.Time{Time: from}, To: api.Time{Time: to}, StepSeconds: int64(q.Step / time.Second),
		Points: make([]api.Point, len(points)), Freshness: fresh.Answer(),
	}
	for i, p := range points {
		answer.Points[i] = api.Point{At: api.Time{Time: p.At}, Bounds: sources.Bounds(&p.Count, &fresh)}
	}
	return answer, nil
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
