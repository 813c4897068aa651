package reads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
	"github.com/weir-counter/weir/service/backend"
	"github.com/weir-counter/weir/service/caller"
	"github.com/weir-counter/weir/service/failure"
)

// AlignedTopQuery asks for the keys with the most hits in some spans together: without From and To in that of now.
type AlignedTopQuery struct {
	Prefix string // only keys that begin with it
	N      int    // MaxAlignedTop at most
	Spans
}

// MaxAlignedTop is how many keys an answer of history lists at most.
const MaxAlignedTop = 1000

var errNotRead = errors.New("history has read nothing of the journal yet")

// AlignedTop lists the keys of history with the most hits in a time, by their lower bounds: those that the caller may read.
func (s *Service) AlignedTop(ctx context.Context, c caller.Caller, q AlignedTopQuery) (none api.TopAnswer, err error) {
	may, err := s.parts.Gate.Enter(c, auth.Read)
	if err != nil {
		return none, err
	}
	prefixes, err := may.PartsOf(q.Prefix)
	if err != nil {
		return none, err
	}
	if err := q.ofRegion(); err != nil {
		return none, err
	}
	switch {
	case q.N > MaxAlignedTop:
		return none, &failure.Error{Code: api.CodeInvalidParameter, Field: "n", Message: fmt.Sprintf("n: at most %d keys with align", MaxAlignedTop)}
	case s.parts.History == nil:
		return none, &failure.Error{Code: api.CodeNoHistory, Message: "this server keeps no history: start it without --history=false and --ephemeral, or ask without align for a window"}
	}
	asked, err := s.parts.Sources.Await(ctx, q.Fresh)
	if err != nil {
		return none, err
	}
	from, to, err := q.bounds(asked.At(time.Time{}))
	if err != nil {
		return none, &failure.Error{Code: api.CodeInvalidRange, Field: "from", Message: err.Error()}
	}
	if err := s.awaitFresh(ctx, q.Fresh); err != nil {
		return none, err
	}
	answer := api.TopAnswer{
		WindowSeconds: to - from, At: api.Time{Time: time.Unix(to-1, 0)}, Start: &api.Time{Time: time.Unix(from, 0)},
		Align: string(q.Unit), Zone: q.Zone.String(), Source: "history", Prefix: q.Prefix, Keys: []api.TopKey{},
	}
	asking, cancel := context.WithTimeout(ctx, backend.HistoryTimeout)
	defer cancel()
	for i, prefix := range prefixes { // of which none is within another
		keys, asOf, err := s.parts.History.Top(asking, prefix, from, to, q.N)
		if err == nil && asOf.UnixMilli() <= 0 {
			err = errNotRead
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return none, failure.As(err)
		case asking.Err() != nil:
			return none, &failure.Error{Code: api.CodeNoHistory, Message: fmt.Sprintf("history did not find the keys with the most hits of this time within %v: ask for whole months or years of UTC, which take least, or for fewer keys", backend.HistoryTimeout)}
		default:
			s.parts.Log.WarnContext(ctx, "history could not answer", "error", err)
			return none, &failure.Error{Code: api.CodeNoHistory, Message: "history can't be read now: the server's log says why; ask again, or without align for a window"}
		}
		if i == 0 || asOf.Before(answer.AsOf.Time) {
			answer.Freshness = api.Freshness{AsOf: api.Millis(asOf)}
		}
		for k := range keys {
			answer.Keys = append(answer.Keys, api.TopKey{Key: keys[k].Key, Bounds: boundsOf(&keys[k].HistoryTotal)})
		}
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
