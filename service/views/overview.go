package views

import (
	"context"
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
	end := s.Now()
	answer := api.OverviewAnswer{WindowSeconds: int64(q.Window / time.Second), At: api.Time{Time: end}, Keys: []api.KeyView{}}
	top, err := s.Top(ctx, c, service.TopQuery{Window: q.Window, N: q.N, Prefix: q.Prefix, At: end})
	if err != nil {
		return answer, err
	}
	answer.Freshness = top.Freshness
	divided := partsOf(end, q.Window)
	var questions []service.CountQuestion
	all := s.ReadsAll(c)
	if all {
		questions = divided.append([]service.CountQuestion{
			{Key: weir.AllKeys, At: end, Window: now}, {Key: weir.AllKeys, At: end, Window: q.Window}, {Key: weir.AllKeys, At: end.Add(-q.Window), Window: q.Window},
		}, weir.AllKeys, 0)
	}
	for _, k := range top.Keys {
		questions = divided.append(append(questions, service.CountQuestion{Key: k.Key, At: end.Add(-q.Window), Window: q.Window}), k.Key, 0)
	}
	if len(questions) == 0 {
		return answer, nil
	}
	bounds, _, err := s.Batch(ctx, c, questions)
	if err != nil {
		return answer, err
	}
	if all {
		stats, err := s.Stats(c)
		if err != nil {
			return answer, err
		}
		first := take(&bounds, 3)
		answer.All = &api.AllHits{PerSecond: first[0].Per(int64(now / time.Second)), Hits: first[1], Before: first[2], Keys: stats.Keys, Line: divided.line(&bounds)}
		answer.Alarms = stats.Alarms
	}
	for _, k := range top.Keys {
		before := take(&bounds, 1)[0]
		answer.Keys = append(answer.Keys, api.KeyView{Key: k.Key, Bounds: k.Bounds, Before: before, Line: estimates(take(&bounds, divided.len()))})
	}
	return answer, nil
}
