package views

import (
	"context"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
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
	return answer, nil
}
