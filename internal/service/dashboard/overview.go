package dashboard

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/queries"
)

// now is the window whose mean is the rate of now.
const now = 5 * time.Second

// OverviewQuery asks for the view of all keys.
type OverviewQuery struct {
	Window time.Duration // whole seconds
	N      int           // how many keys
	Prefix string        // only keys that begin with it
	Groups int           // of how many groups, N keys each; 0: of all keys together
}

// groupedOf is how many of the keys with most hits groups are made of.
const groupedOf = 1000

// OverviewView is the hits of all keys together, and of those keys.
func OverviewView(ctx context.Context, s *service.Service, c access.Caller, q OverviewQuery, keys []string) (api.OverviewAnswer, error) {
	end := s.Now()
	answer := api.OverviewAnswer{WindowSeconds: int64(q.Window / time.Second), At: api.Time{Time: end}, Keys: []api.KeyView{}}
	divided, small := partsOf(end, q.Window, maxParts), partsOf(end, q.Window, smallParts)
	var questions []api.CountQuestion
	all := s.ReadsAll(c)
	if all {
		questions = divided.append([]api.CountQuestion{
			{Key: engine.AllKeys, At: end, Window: now}, {Key: engine.AllKeys, At: end, Window: q.Window}, {Key: engine.AllKeys, At: end.Add(-q.Window), Window: q.Window},
		}, engine.AllKeys, 0)
	}
	for _, key := range keys {
		questions = small.append(append(questions, api.CountQuestion{Key: key, At: end, Window: q.Window}, api.CountQuestion{Key: key, At: end.Add(-q.Window), Window: q.Window}), key, 0)
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
		answer.Keys = append(answer.Keys, api.KeyView{Key: key, Bounds: two[0], Before: two[1], Line: estimates(take(&bounds, small.len()))})
	}
	slices.SortStableFunc(answer.Keys, func(a, b api.KeyView) int { return cmp.Compare(b.Estimate, a.Estimate) })
	return answer, nil
}

// Keys returns the keys that have most hits now. Finding them takes time for each key, 0.6 s for a million. So they may be from
// a moment ago, while their counts are current.
func (q OverviewQuery) Keys(ctx context.Context, s *service.Service, c access.Caller) ([]string, error) {
	most := q.N
	if q.Groups > 0 {
		most = groupedOf
	}
	top, err := s.Top(ctx, c, queries.TopQuery{Window: q.Window, N: most, Prefix: q.Prefix})
	if err != nil {
		return nil, err
	}
	keys, groups := make([]string, 0, len(top.Keys)), map[string]int{}
	for _, k := range top.Keys {
		if q.Groups > 0 {
			group := k.Key[:strings.IndexByte(k.Key, ':')+1] // keys without a colon are a group
			if has, known := groups[group]; has >= q.N || !known && len(groups) >= q.Groups {
				continue
			}
			groups[group]++
		}
		keys = append(keys, k.Key)
	}
	return keys, nil
}
