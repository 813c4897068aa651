package queries

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/history/calendar"
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
	fresh = asked.Fresh(fresh)
	answer := api.SeriesAnswer{
		Key: q.Key, From: api.Time{Time: from}, To: api.Time{Time: to}, StepSeconds: int64(q.Step / time.Second),
		Points: make([]api.Point, len(points)), Freshness: fresh,
	}
	for i, p := range points {
		answer.Points[i] = api.Point{At: api.Time{Time: p.At}, Bounds: SourceBounds(&p.Count, &fresh)}
	}
	return answer, nil
}

// alignToEnd moves from to where the first of the steps that end at to begins, so that the newest hits are in the last
// point. A step or a span that Series refuses stays as it is.
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
		pastFresh := api.Freshness{AsOf: api.Millis(asOf)}
		a.Bounds, a.Freshness, a.Source = SourceBounds(c, &pastFresh), pastFresh, "history"
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

// Spans are whole hours, days, weeks, months or years of a time zone.
type Spans struct {
	From, To time.Time // the spans that these moments are in are whole; zero: as the question says
	Unit     calendar.Unit
	Zone     *time.Location
	Fresh    time.Duration // as of a CountQuery
	Scope    request.Scope // none, or the scope of the region: history is of its journal
}

// ofRegion fails for a Scope that history has no hits of.
func (q *Spans) ofRegion() error {
	if q.Scope == "" || q.Scope == request.Region {
		return nil
	}
	return &api.Error{Code: api.CodeInvalidParameter, Field: "scope", Message: "scope: history (align) covers this server's region only: omit scope, or ask each region"}
}

// AlignedQuery asks for the hits of a key in each of some spans: without From in the last 24, and without To up to now.
type AlignedQuery struct {
	Key      string
	Distinct bool // asks for the number of different ids too, which only history has
	Spans
}

// maxUnions is of how many spans different ids are counted at most.
const maxUnions = 1000

// defaultSpans is how many spans there are without From.
const defaultSpans = 24

// Aligned answers from history where there is one, else, and where history lacks hits, from the
// windows, within their bounds: the answer says which.
func (s *Service) Aligned(ctx context.Context, c access.Caller, q AlignedQuery) (none api.SeriesAnswer, err error) {
	if _, err := s.parts.Gate.EnterKeys(c, auth.Read, q.Key); err != nil {
		return none, err
	}
	if err := q.ofRegion(); err != nil {
		return none, err
	}
	asked, err := s.parts.Sources.Await(ctx, q.Fresh)
	if err != nil {
		return none, err
	}
	now := asked.now()
	bounds, err := q.bounds(now)
	if err != nil {
		return none, &api.Error{Code: api.CodeInvalidRange, Field: "from", Message: err.Error()}
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
	if q.Distinct {
		ids, err := s.unions(ctx, q.Key, bounds)
		if err != nil {
			return none, err
		}
		for i := range ids {
			answer.Points[i].Distinct = &ids[i]
		}
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
	return calendar.Bounds(q.Unit, from, to, q.Zone, engine.MaxPoints)
}

// history asks history; totals are nil where it can't answer.
func (s *Service) history(ctx context.Context, q AlignedQuery, bounds []int64) (totals []engine.Count, asOf time.Time, err error) {
	h := s.parts.History
	if h == nil {
		return nil, asOf, nil
	}
	if err := s.awaitFresh(ctx, q.Fresh); err != nil {
		return nil, asOf, err
	}
	asking, cancel := context.WithTimeout(ctx, HistoryTimeout)
	defer cancel()
	totals, asOf, err = h.Totals(asking, q.Key, bounds)
	if err != nil {
		if ctx.Err() != nil {
			return nil, asOf, err
		}
		s.parts.Log.WarnContext(ctx, "history could not answer; the windows do", "error", err)
		return nil, time.Time{}, nil
	}
	if asOf.UnixMilli() <= 0 { // it has read nothing yet: an answer of 0 hits would look exact
		return nil, time.Time{}, nil
	}
	return totals, asOf, nil
}

// unions asks history for the number of different ids.
func (s *Service) unions(ctx context.Context, key string, bounds []int64) ([]api.Distinct, error) {
	switch {
	case len(bounds) > maxUnions+1:
		return nil, &api.Error{Code: api.CodeInvalidRange, Field: "from", Message: fmt.Sprintf("distinct ids are counted in at most %d spans at a time", maxUnions)}
	case s.parts.History == nil:
		return nil, errNoHistory
	}
	ctx, cancel := context.WithTimeout(ctx, HistoryTimeout)
	defer cancel()
	ids, asOf, err := s.parts.History.Unions(ctx, key, bounds)
	if err == nil && asOf.UnixMilli() <= 0 {
		err = errNotRead
	}
	if err != nil {
		s.parts.Log.WarnContext(ctx, "history could not answer", "error", err)
		err = errHistoryFails
	}
	return ids, err
}

// UnionBetween counts the different ids of a key in [from, to), by history.
func (s *Service) UnionBetween(ctx context.Context, c access.Caller, key string, from, to time.Time) (d api.Distinct, err error) {
	if _, err := s.parts.Gate.EnterKeys(c, auth.Read, key); err != nil {
		return d, err
	}
	ids, err := s.unions(ctx, key, []int64{from.Unix(), to.Unix()})
	if err == nil {
		d = ids[0]
	}
	return d, err
}

var (
	errNoHistory    = &api.Error{Code: api.CodeNoHistory, Message: "this server keeps no history: start it without --history=false and --ephemeral"}
	errHistoryFails = &api.Error{Code: api.CodeNoHistory, Message: "history can't be read now: the server's log says why. Try again later"}
)

// awaitFresh waits until history has all hits before the question, if that is asked for.
func (s *Service) awaitFresh(ctx context.Context, fresh time.Duration) error {
	if fresh <= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, min(fresh, request.LongestFresh))
	defer cancel()
	if err := s.parts.History.Await(ctx); err != nil {
		return &api.Error{Code: api.CodeNotFresh, Field: "fresh", Message: fmt.Sprintf("history did not have all hits in time (%v): wait longer, or query without fresh", err)}
	}
	return nil
}

// fill puts totals into points, and returns which of them have no upper bound.
func fill(points []api.Point, totals []engine.Count) (open []int) {
	for i := range points {
		if totals == nil || !totals[i].HasUpper() {
			open = append(open, i)
		}
		if totals != nil {
			points[i].Bounds = SourceBounds(&totals[i], &api.Freshness{})
		}
	}
	return open
}

// fillFromWindows completes points: where history has some, the windows bound them from above.
func (s *Service) fillFromWindows(ctx context.Context, asked Asked, key string, answer *api.SeriesAnswer, bounds []int64, open []int, now time.Time) error {
	questions := make([]api.CountQuestion, 0, len(open))
	asking := make([]int, 0, len(open))
	for _, i := range open {
		last := min(bounds[i+1]-1, now.Unix())
		if seconds := last + 1 - bounds[i]; seconds > 0 {
			questions = append(questions, api.CountQuestion{Key: key, At: time.Unix(last, 0), Window: time.Duration(seconds) * time.Second})
			asking = append(asking, i)
		}
	}
	counts, fresh, err := asked.counts(ctx, questions, make([]engine.Count, 0, len(questions)))
	if err != nil {
		return err
	}
	fresh = asked.Fresh(fresh)
	if answer.Source == "windows" {
		answer.Freshness = fresh
	}
	for k, i := range asking {
		p, c := &answer.Points[i], &counts[k]
		if answer.Source != "windows" {
			if c.Lower = max(c.Lower, p.Lower); bounds[i+1] > answer.AsOf.Unix() { // hits that came after what history has don't count here
				c.Lower = p.Lower
			}
			c.Upper = max(c.Upper, c.Lower)
			c.Estimate = min(max(c.Estimate, c.Lower), c.Upper)
		}
		if c.Upper == math.MaxUint64 {
			c.Estimate = max(c.Estimate, c.Lower)
		}
		p.Bounds = SourceBounds(c, &fresh)
	}
	return nil
}

// AlignedTopQuery asks for the keys with the most hits in some spans together. Without From and To it asks for the
// current span.
type AlignedTopQuery struct {
	Prefix string // only keys that begin with it
	N      int    // MaxAlignedTop at most
	Spans
}

// MaxAlignedTop is how many keys an answer of history lists at most.
const MaxAlignedTop = 1000

var errNotRead = errors.New("history has read nothing of the journal yet")

// AlignedTop lists the keys of history with the most hits in a time, by their lower bounds: those that the caller may read.
func (s *Service) AlignedTop(ctx context.Context, c access.Caller, q AlignedTopQuery) (none api.TopAnswer, err error) {
	_, prefixes, err := s.parts.Gate.EnterPrefix(c, auth.Read, q.Prefix)
	if err != nil {
		return none, err
	}
	if err := q.ofRegion(); err != nil {
		return none, err
	}
	switch {
	case q.N > MaxAlignedTop:
		return none, &api.Error{Code: api.CodeInvalidParameter, Field: "n", Message: fmt.Sprintf("n: at most %d keys with align", MaxAlignedTop)}
	case s.parts.History == nil:
		return none, errNoHistory
	}
	asked, err := s.parts.Sources.Await(ctx, q.Fresh)
	if err != nil {
		return none, err
	}
	from, to, err := q.bounds(asked.now())
	if err != nil {
		return none, &api.Error{Code: api.CodeInvalidRange, Field: "from", Message: err.Error()}
	}
	if err := s.awaitFresh(ctx, q.Fresh); err != nil {
		return none, err
	}
	answer := api.TopAnswer{
		WindowSeconds: to - from, At: api.Time{Time: time.Unix(to-1, 0)}, Start: &api.Time{Time: time.Unix(from, 0)},
		Align: string(q.Unit), Zone: q.Zone.String(), Source: "history", Prefix: q.Prefix, Keys: []api.TopKey{},
	}
	asking, cancel := context.WithTimeout(ctx, HistoryTimeout)
	defer cancel()
	for i, prefix := range prefixes { // of which none is within another
		keys, asOf, err := s.parts.History.Top(asking, prefix, from, to, q.N)
		if err == nil && asOf.UnixMilli() <= 0 {
			err = errNotRead
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return none, err
		case asking.Err() != nil:
			return none, &api.Error{Code: api.CodeNoHistory, Message: fmt.Sprintf("history did not find the top keys of this time within %v: query whole months or years of UTC, or fewer keys", HistoryTimeout)}
		default:
			s.parts.Log.WarnContext(ctx, "history could not answer", "error", err)
			return none, errHistoryFails
		}
		if i == 0 || asOf.Before(answer.AsOf.Time) {
			answer.Freshness = api.Freshness{AsOf: api.Millis(asOf)}
		}
		for k := range keys {
			answer.Keys = append(answer.Keys, api.TopKey{Key: keys[k].Key, Bounds: SourceBounds(&keys[k].Count, &api.Freshness{})})
		}
	}
	if answer.Missing, err = s.parts.History.Missing(asking, time.Unix(from, 0), time.Unix(to, 0)); err != nil {
		return none, request.As(err)
	}
	slices.SortFunc(answer.Keys, func(a, b api.TopKey) int { return cmp.Or(cmp.Compare(b.Lower, a.Lower), cmp.Compare(a.Key, b.Key)) })
	answer.Keys = answer.Keys[:min(q.N, len(answer.Keys))]
	return answer, nil
}

// bounds are where the time begins and ends.
func (q *AlignedTopQuery) bounds(now time.Time) (from, to int64, err error) {
	first, last := q.From, q.To
	if first.IsZero() {
		first = now
	}
	if last.IsZero() {
		last = now.Add(time.Second) // a second stands for all of it
		if !first.Before(last) {
			last = first.Add(time.Second)
		}
	}
	if !first.Before(last) {
		return 0, 0, errors.New("from must be before to")
	}
	return q.Unit.Start(first.In(q.Zone)).Unix(), q.Unit.Next(q.Unit.Start(last.Add(-time.Nanosecond).In(q.Zone))).Unix(), nil
}
