package views

import (
	"cmp"
	"context"
	"slices"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
)

// now is the window whose mean is the rate of now.
const now = 5 * time.Second

// OverviewQuery asks for the view of all keys.
type OverviewQuery struct {
	Window time.Duration // whole seconds
	N      int           // how many keys
	Prefix string        // only keys that begin with it
}

// Overview is the hits of all keys together, and the keys that have most.
func Overview(ctx context.Context, s *service.Service, c service.Caller, q OverviewQuery) (api.OverviewAnswer, error) {
	keys, err := q.keys(ctx, s, c)
	if err != nil {
		return api.OverviewAnswer{}, err
	}
	return q.of(ctx, s, c, keys)
}

// OverviewAgain is Overview for a page that asks again and again: which keys have most may be of some time ago, where to find
// them takes long; what is counted is of now. name is of all who ask the same, and may read the same.
func (t *Tops) OverviewAgain(ctx context.Context, s *service.Service, c service.Caller, q OverviewQuery, name string) (api.OverviewAnswer, error) {
	keys, known, err := t.keys(ctx, name, func(ctx context.Context) ([]string, error) { return q.keys(ctx, s, c) })
	if err != nil {
		return api.OverviewAnswer{}, err
	}
	answer, err := q.of(ctx, s, c, keys)
	answer.Pending = !known
	return answer, err
}

// keys are those that have most hits now.
func (q OverviewQuery) keys(ctx context.Context, s *service.Service, c service.Caller) ([]string, error) {
	top, err := s.Top(ctx, c, service.TopQuery{Window: q.Window, N: q.N, Prefix: q.Prefix})
	if err != nil {
		return nil, err
	}
	keys := make([]string, len(top.Keys))
	for i, k := range top.Keys {
		keys[i] = k.Key
	}
	return keys, nil
}

// of counts all hits, and these keys.
func (q OverviewQuery) of(ctx context.Context, s *service.Service, c service.Caller, keys []string) (api.OverviewAnswer, error) {
	end := s.Now()
	answer := api.OverviewAnswer{WindowSeconds: int64(q.Window / time.Second), At: api.Time{Time: end}, Keys: []api.KeyView{}}
	divided := partsOf(end, q.Window)
	var questions []service.CountQuestion
	all := s.ReadsAll(c)
	if all {
		questions = divided.append([]service.CountQuestion{
			{Key: weir.AllKeys, At: end, Window: now}, {Key: weir.AllKeys, At: end, Window: q.Window}, {Key: weir.AllKeys, At: end.Add(-q.Window), Window: q.Window},
		}, weir.AllKeys, 0)
	}
	for _, key := range keys {
		questions = divided.append(append(questions, service.CountQuestion{Key: key, At: end, Window: q.Window}, service.CountQuestion{Key: key, At: end.Add(-q.Window), Window: q.Window}), key, 0)
	}
	bounds, fresh, err := s.Batch(ctx, c, questions)
	if err != nil {
		return answer, err
	}
	answer.Freshness = fresh
	if all {
		stats, err := s.Stats(c)
		if err != nil {
			return answer, err
		}
		first := take(&bounds, 3)
		answer.All = &api.AllHits{PerSecond: first[0].Per(int64(now / time.Second)), Hits: first[1], Before: first[2], Keys: stats.Keys, Line: divided.line(&bounds)}
		answer.Alarms = stats.Alarms
	}
	for _, key := range keys {
		two := take(&bounds, 2)
		answer.Keys = append(answer.Keys, api.KeyView{Key: key, Bounds: two[0], Before: two[1], Line: estimates(take(&bounds, divided.len()))})
	}
	slices.SortStableFunc(answer.Keys, func(a, b api.KeyView) int { return cmp.Compare(b.Estimate, a.Estimate) })
	return answer, nil
}
