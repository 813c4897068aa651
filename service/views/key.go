package views

import (
	"context"
	"slices"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
	"github.com/weir-counter/weir/service/parse"
)

// windows are those that a key is counted in.
var windows = []time.Duration{time.Minute, 5 * time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}

// KeyQuery asks for the view of a key.
type KeyQuery struct {
	Key    string
	Window time.Duration // of the lines, whole seconds
	With   []string      // other keys, whose lines are beside it
}

// Key is one key: in the usual windows, and over time beside the window before.
func Key(ctx context.Context, s *service.Service, c service.Caller, q KeyQuery) (api.KeyAnswer, error) {
	end := s.Now()
	answer := api.KeyAnswer{Key: q.Key, WindowSeconds: int64(q.Window / time.Second), At: api.Time{Time: end}}
	var questions []service.CountQuestion
	for _, w := range windows {
		questions = append(questions, service.CountQuestion{Key: q.Key, At: end, Window: w}, service.CountQuestion{Key: q.Key, At: end.Add(-w), Window: w})
	}
	divided := partsOf(end, q.Window)
	questions = divided.append(divided.append(questions, q.Key, 0), q.Key, q.Window)
	for _, other := range q.With {
		questions = divided.append(questions, other, 0)
	}
	bounds, fresh, err := s.Batch(ctx, c, questions)
	if err != nil {
		return answer, err
	}
	answer.Freshness = fresh
	for _, w := range windows {
		two := take(&bounds, 2)
		answer.Counts = append(answer.Counts, api.KeyWindow{WindowSeconds: int64(w / time.Second), Bounds: two[0], Before: two[1]})
	}
	answer.Line = divided.line(&bounds)
	answer.Before = estimates(take(&bounds, divided.len()))
	for _, other := range q.With {
		answer.With = append(answer.With, api.OtherKey{Key: other, Line: estimates(take(&bounds, divided.len()))})
	}
	if s.Backend().Regions == nil {
		return answer, nil
	}
	answer.Regions, err = regionsOf(ctx, s, c, q.Key, end)
	return answer, err
}

// regionsOf is the parts of all regions in the usual windows.
func regionsOf(ctx context.Context, s *service.Service, c service.Caller, key string, end time.Time) (list []api.KeyRegion, err error) {
	counts, err := s.Count(ctx, c, service.CountQuery{Keys: []string{key}, Windows: windows, At: end, Scope: parse.Global, ByRegion: true})
	for _, count := range counts {
		for _, part := range count.Regions {
			at := slices.IndexFunc(list, func(r api.KeyRegion) bool { return r.Region == part.Region })
			if at < 0 {
				at = len(list)
				list = append(list, api.KeyRegion{Region: part.Region, Freshness: part.Freshness})
			}
			list[at].Counts = append(list[at].Counts, part.Bounds)
		}
	}
	return list, err
}
