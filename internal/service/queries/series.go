package queries

import (
	"context"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/request"
)

const defaultSpan = time.Hour

// SeriesQuery asks for the hits of a key, window by window.
type SeriesQuery struct {
	Key      string
	From, To time.Time     // zero: an hour before To; Now
	Step     time.Duration // whole seconds
	Fresh    time.Duration // as of a CountQuery
	Scope    request.Scope
}

// Series answers for the adjoining windows of Step that end at To.
func (s *Service) Series(ctx context.Context, c access.Caller, q SeriesQuery) (api.SeriesAnswer, error) {
	if _, err := s.parts.Gate.EnterKeys(c, auth.Read, q.Key); err != nil {
		return api.SeriesAnswer{}, err
	}
	asked, err := s.parts.Sources.Within(ctx, q.Scope, q.Fresh)
	if err != nil {
		return api.SeriesAnswer{}, err
	}
	to, from := q.To, q.From // charts end with the present span, which is in the future
	if to.IsZero() {
		to = asked.now()
	}
	if from.IsZero() {
		from = to.Add(-defaultSpan)
	}
	from, to = alignToEnd(from, to, q.Step)
	points, fresh, err := asked.Answers.Series(ctx, asked.upTo, q.Key, from, to, q.Step)
	if err != nil {
		return api.SeriesAnswer{}, err
	}
	fresh = asked.AboutKey(fresh, q.Key)
	answer := api.SeriesAnswer{
		Key: q.Key, From: api.Time{Time: from}, To: api.Time{Time: to}, StepSeconds: int64(q.Step / time.Second),
		Points: make([]api.Point, len(points)), Freshness: fresh,
	}
	for i, p := range points {
		answer.Points[i] = api.Point{At: api.Time{Time: p.At}, Bounds: SourceBounds(&p.Count, &fresh)}
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

// pastEdge is what the edges of a window are multiples of for history to be asked: the narrowest
// slots that it may have.
const pastEdge = 15 * time.Minute

// ofHistory reports whether history may know the windows of a question. They must be of this region and end with a
// named second. A window of now moves, and falls on the edge of an hour by chance only.
func (s *Service) ofHistory(q *CountQuery) bool {
	return s.parts.History != nil && !q.At.IsZero() && q.At.Nanosecond() == 0 && (q.At.Unix()+1)%int64(pastEdge/time.Second) == 0 &&
		(q.Scope == request.Region || q.Scope == "" && s.parts.Regions == nil)
}

// answerFromHistory replaces an answer of the windows if history knows more of its window. If history can't be asked,
// or has not passed the window's end, the answer stays. The argument fresh is the freshness of the answers. If within
// is not 0, it is how long to wait for all hits before the question.
func (s *Service) answerFromHistory(ctx context.Context, into *Counting, fresh api.Freshness, within time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, HistoryTimeout)
	defer cancel()
	awaited := false
	for i := range into.Answers {
		q, a := &into.questions[i], &into.Answers[i]
		if a.Exact || q.Window%pastEdge != 0 {
			continue
		}
		if within != 0 && !awaited {
			if awaited = s.awaitHistory(ctx, within); !awaited {
				return
			}
		}
		end := q.At.Unix() + 1
		totals, asOf, err := s.parts.History.Totals(ctx, q.Key, []int64{end - int64(q.Window/time.Second), end})
		if err != nil {
			s.parts.Log.WarnContext(ctx, "history could not answer; the windows do", "error", err)
			return
		}
		if asOf.Unix() < end || !closer(totals[0], a) {
			continue
		}
		if awaited && fresh.AsOf.After(asOf) {
			asOf = fresh.AsOf.Time
		}
		c := &into.counts[i]
		*c = totals[0]
		of := api.Freshness{AsOf: api.Millis(asOf)}
		a.Bounds, a.Freshness, a.Source = SourceBounds(c, &of), of, "history"
	}
}

func (s *Service) awaitHistory(ctx context.Context, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return s.parts.History.Await(ctx) == nil
}

// closer reports whether the bounds of history are closer than the bounds of an answer. Bounds that exclude each other
// mean that history lacks something newer, a late hit or a deletion.
func closer(t engine.Count, a *api.CountAnswer) bool {
	switch {
	case !t.HasUpper() || t.Upper < a.Lower:
		return false
	case a.Upper == nil:
		return true
	}
	return t.Lower <= *a.Upper && t.Upper-t.Lower < *a.Upper-a.Lower
}
