package reads

import (
	"context"
	"fmt"
	"math"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
	"github.com/weir-counter/weir/history/calendar"
	"github.com/weir-counter/weir/service/backend"
	"github.com/weir-counter/weir/service/caller"
	"github.com/weir-counter/weir/service/failure"
	"github.com/weir-counter/weir/service/parse"
	"github.com/weir-counter/weir/service/sources"
)

// Spans are whole hours, days, weeks, months or years of a time zone.
type Spans struct {
	From, To time.Time // the spans that these moments are in are whole; zero: as the question says
	Unit     calendar.Unit
	Zone     *time.Location
	Fresh    time.Duration // as of a CountQuery
	Scope    parse.Scope   // none, or that of the region: history is of its journal
}

// ofRegion fails for a Scope that history has no hits of.
func (q *Spans) ofRegion() error {
	if q.Scope == "" || q.Scope == parse.Region {
		return nil
	}
	return &failure.Error{Code: api.CodeInvalidParameter, Field: "scope", Message: "scope: align answers for this server's region: leave scope out, or ask each region"}
}

// AlignedQuery asks for the hits of a key in each of some spans: without From in the last 24, and without To up to now.
type AlignedQuery struct {
	Key string
	Spans
}

// defaultSpans is how many spans there are without From.
const defaultSpans = 24

// Aligned answers from history where there is one, else, and where history lacks hits, from the
// windows, within their bounds: the answer says which.
func (s *Service) Aligned(ctx context.Context, c caller.Caller, q AlignedQuery) (none api.SeriesAnswer, err error) {
	may, err := s.parts.Gate.Enter(c, auth.Read)
	if err != nil {
		return none, err
	}
	if err := parse.Named(q.Key); err != nil {
		return none, err
	}
	if err := may.CheckKey(q.Key); err != nil {
		return none, err
	}
	if err := q.ofRegion(); err != nil {
		return none, err
	}
	asked, err := s.parts.Sources.Await(ctx, q.Fresh)
	if err != nil {
		return none, err
	}
	now := asked.At(time.Time{})
	bounds, err := q.bounds(now)
	if err != nil {
		return none, &failure.Error{Code: api.CodeInvalidRange, Field: "from", Message: err.Error()}
	}
	answer := api.SeriesAnswer{
		Key: q.Key, From: api.Time{Time: time.Unix(bounds[0]-1, 0)}, To: api.Time{Time: time.Unix(bounds[len(bounds)-1]-1, 0)},
		Align: string(q.Unit), Zone: q.Zone.String(), Points: make([]api.Point, len(bounds)-1),
	}
	for i := range answer.Points {
		answer.Points[i] = api.Point{At: api.Time{Time: time.Unix(bounds[i+1]-1, 0)}, Start: &api.Time{Time: time.Unix(bounds[i], 0)}}
	}
	totals, asOf, err := s.history(ctx, q, bounds)
	if err != nil {
		return none, err
	}
	answer.Freshness = api.Freshness{AsOf: api.Millis(asOf)}
	open := fill(answer.Points, totals)
	if answer.Source = "history"; len(open) == 0 {
		return answer, nil
	}
	if answer.Source = "history+windows"; totals == nil {
		answer.Source = "windows"
	}
	return answer, s.fillFromWindows(ctx, asked, q.Key, &answer, bounds, open, now)
}

// bounds are where the spans begin, and where the last one ends.
func (q *AlignedQuery) bounds(now time.Time) ([]int64, error) {
	to, from := q.To, q.From
	if to.IsZero() {
		to = now.Add(time.Second) // a second stands for all of it
	}
	if from.IsZero() {
		from = q.Unit.Start(to.Add(-time.Second).In(q.Zone))
		for range defaultSpans - 1 {
			from = q.Unit.Start(from.Add(-time.Second))
		}
	}
	return calendar.Bounds(q.Unit, from, to, q.Zone, weir.MaxPoints)
}

// history asks history; totals are nil where it can't answer.
func (s *Service) history(ctx context.Context, q AlignedQuery, bounds []int64) (totals []backend.HistoryTotal, asOf time.Time, err error) {
	h := s.parts.History
	if h == nil {
		return nil, asOf, nil
	}
	if err := s.awaitFresh(ctx, q.Fresh); err != nil {
		return nil, asOf, err
	}
	asking, cancel := context.WithTimeout(ctx, backend.HistoryTimeout)
	defer cancel()
	totals, asOf, err = h.Totals(asking, q.Key, bounds)
	if err != nil {
		if ctx.Err() != nil {
			return nil, asOf, failure.As(err)
		}
		s.parts.Log.WarnContext(ctx, "history could not answer; the windows do", "error", err)
		return nil, time.Time{}, nil
	}
	if asOf.UnixMilli() <= 0 { // it has read nothing yet: 0 hits would be exact as of never
		return nil, time.Time{}, nil
	}
	return totals, asOf, nil
}

// awaitFresh waits until history has all hits before the question, if that is asked for.
func (s *Service) awaitFresh(ctx context.Context, fresh time.Duration) error {
	if fresh <= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, min(fresh, parse.LongestFresh))
	defer cancel()
	if err := s.parts.History.Await(ctx); err != nil {
		return &failure.Error{Code: api.CodeNotFresh, Field: "fresh", Message: fmt.Sprintf("history does not have all hits in time (%v): wait longer, or ask without fresh for what it has", err)}
	}
	return nil
}

// fill puts totals into points, and returns which of them have no upper bound.
func fill(points []api.Point, totals []backend.HistoryTotal) (open []int) {
	for i := range points {
		if totals == nil || !totals[i].Bounded {
			open = append(open, i)
		}
		if totals != nil {
			points[i].Bounds = boundsOf(&totals[i])
		}
	}
	return open
}

// boundsOf is a total as answers have it.
func boundsOf(t *backend.HistoryTotal) api.Bounds {
	if !t.Bounded {
		return api.Bounds{Lower: t.Lower, Estimate: t.Lower}
	}
	upper := t.Upper
	return api.Bounds{Lower: t.Lower, Estimate: t.Lower + (upper-t.Lower)/2, Upper: &upper, Exact: t.Lower == upper}
}

// fillFromWindows completes points: where history has some, the windows bound them from above.
func (s *Service) fillFromWindows(ctx context.Context, asked sources.Asked, key string, answer *api.SeriesAnswer, bounds []int64, open []int, now time.Time) error {
	questions := make([]sources.CountQuestion, 0, len(open))
	asking := make([]int, 0, len(open))
	for _, i := range open {
		last := min(bounds[i+1]-1, now.Unix())
		if seconds := last + 1 - bounds[i]; seconds > 0 {
			questions = append(questions, sources.CountQuestion{Key: key, At: time.Unix(last, 0), Window: time.Duration(seconds) * time.Second})
			asking = append(asking, i)
		}
	}
	counts, fresh, err := asked.Answers.Counts(ctx, questions, make([]weir.Count, 0, len(questions)))
	if err != nil {
		return failure.As(err)
	}
	fresh = asked.Fresh(fresh)
	if answer.Source == "windows" {
		answer.Freshness = fresh.Answer()
	}
	for k, i := range asking {
		p, c := &answer.Points[i], &counts[k]
		if answer.Source != "windows" { // hits that came after what history has don't count here
			c.Lower, c.Upper = p.Lower, max(c.Upper, p.Lower)
			c.Estimate = min(max(c.Estimate, p.Lower), c.Upper)
		}
		if c.Upper == math.MaxUint64 {
			c.Estimate = max(c.Estimate, c.Lower)
		}
		p.Bounds = sources.Bounds(c, &fresh)
	}
	return nil
}
