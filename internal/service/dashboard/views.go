// Package dashboard puts together what the pages of the dashboard show, of what package service answers. A view is one
// answer, whole, so that a page needs to know nothing of earlier ones.
//
// Invariants: each view is bounded, however many keys, policies and nodes there are. What a caller may not read is
// not in it.
package dashboard

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/limits"
	"github.com/weir-counter/weir/internal/service/queries"
	"github.com/weir-counter/weir/internal/service/request"
)

// windows are those that a key is counted in.
var windows = []time.Duration{time.Minute, 5 * time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}

// KeyQuery asks for the view of a key.
type KeyQuery struct {
	Key    string
	Window time.Duration // of the lines, whole seconds
	With   []string      // other keys, whose lines are compared with it
}

// KeyView is one key: in the usual windows, and over time next to the window before.
func KeyView(ctx context.Context, s *service.Service, c access.Caller, q KeyQuery) (api.KeyAnswer, error) {
	end := s.Now()
	answer := api.KeyAnswer{Key: q.Key, WindowSeconds: int64(q.Window / time.Second), At: api.Time{Time: end}}
	var questions []api.CountQuestion
	for _, w := range windows {
		questions = append(questions, api.CountQuestion{Key: q.Key, At: end, Window: w}, api.CountQuestion{Key: q.Key, At: end.Add(-w), Window: w})
	}
	divided := partsOf(end, q.Window, maxParts)
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
func regionsOf(ctx context.Context, s *service.Service, c access.Caller, key string, end time.Time) (list []api.KeyRegion, err error) {
	counts, err := s.Count(ctx, c, queries.CountQuery{Keys: []string{key}, Windows: windows, At: end, Scope: request.Global, ByRegion: true})
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

const (
	maxPolicies = 100 // of one view
	fullest     = 15  // keys of the policy that is looked at
	spending    = 5   // of them, whose use over time is shown
	// deniedWithin is when its most denied keys were denied.
	deniedWithin = 5 * time.Minute
)

// LimitsQuery asks for the view of the policies.
type LimitsQuery struct {
	Window time.Duration // whole seconds
	Name   string        // the policy whose keys are listed; "": none
}

// LimitsView is the policies with their decisions over time, and the keys that have used most of one.
func LimitsView(ctx context.Context, s *service.Service, c access.Caller, q LimitsQuery) (api.LimitsView, error) {
	list, err := s.Limits(ctx, c, q.Window)
	if err != nil {
		return api.LimitsView{}, err
	}
	answer := api.LimitsView{LimitsAnswer: list, Lines: []api.LimitLines{}, Of: q.Name, Keys: []api.LimitKey{}, Freshness: s.Freshness()}
	if len(list.Limits) > maxPolicies {
		answer.More = len(list.Limits) - maxPolicies
		if i := slices.IndexFunc(list.Limits, func(p api.LimitPolicy) bool { return p.Name == q.Name }); i >= maxPolicies {
			list.Limits[maxPolicies-1] = list.Limits[i] // in place of the last that is shown
		}
		answer.Limits = list.Limits[:maxPolicies]
	}
	divided := partsOf(list.At.Time, q.Window, maxParts)
	var questions []limits.DecisionQuestion
	for _, p := range answer.Limits {
		for _, outcome := range []string{"allowed", "denied", "shadow_denied"} {
			for _, q := range divided.append(nil, "", 0) {
				questions = append(questions, limits.DecisionQuestion{Policy: p.Name, Outcome: outcome, At: q.At, Window: q.Window})
			}
		}
	}
	if len(questions) > 0 {
		bounds, fresh, err := s.BatchDecisions(ctx, c, questions)
		if err != nil {
			return answer, err
		}
		answer.Freshness = fresh
		for _, p := range answer.Limits {
			answer.Lines = append(answer.Lines, api.LimitLines{Name: p.Name, Allowed: divided.line(&bounds), Denied: divided.line(&bounds), ShadowDenied: divided.line(&bounds)})
		}
	}
	if q.Name != "" {
		keys, err := s.LimitKeys(c, q.Name, fullest)
		if err != nil {
			return answer, err
		}
		answer.Keys = keys.Keys
		if answer.Spend, err = spend(ctx, s, c, &answer, divided); err != nil {
			return answer, err
		}
		who, err := s.Who(c, limits.WhoQuery{Window: deniedWithin, N: fullest, Limit: q.Name})
		if err != nil {
			return answer, err
		}
		answer.Denied = who.Keys
		answer.MayChange = s.MayChangeLimit(c, q.Name)
	}
	return answer, nil
}

// spend is what the fullest keys have used over time, if the policy that is looked at has a cost.
func spend(ctx context.Context, s *service.Service, c access.Caller, a *api.LimitsView, divided parts) (list []api.Spend, err error) {
	at := slices.IndexFunc(a.Limits, func(p api.LimitPolicy) bool { return p.Name == a.Of && p.Cost != "" })
	if at < 0 {
		return nil, nil
	}
	keys := slices.Clone(a.Keys[:min(len(a.Keys), spending)])
	keys = slices.DeleteFunc(keys, func(k api.LimitKey) bool {
		return len(admit.HitPrefix+a.Of+":"+admit.SpentOutcome(k.Key)) > engine.MaxKeyBytes
	})
	var questions []limits.DecisionQuestion
	for _, k := range keys {
		for _, q := range divided.append(nil, "", 0) {
			questions = append(questions, limits.DecisionQuestion{Policy: a.Of, Outcome: admit.SpentOutcome(k.Key), At: q.At, Window: q.Window})
		}
	}
	if len(questions) == 0 {
		return nil, nil
	}
	bounds, _, err := s.BatchDecisions(ctx, c, questions)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		list = append(list, api.Spend{Key: k.Key, Line: divided.line(&bounds)})
	}
	return list, nil
}

const (
	maxParts   = 90 // of a line
	smallParts = 40 // of the line of a key among many
)

// parts are the adjoining parts of a window that ends at to.
type parts struct {
	from, to int64 // Unix seconds: the first part begins after from, the last one ends with to
	step     int64 // seconds; the last part may be shorter
}

// partsOf divides the window (to-w, to] into about most parts. The memory of a counter has slots of 2^level seconds, aligned to the epoch.
// Parts of a power of two that end with the last second of a slot are made of whole slots, and so they are exact. (At
// the age of a window w, slots are shorter than w/100, and parts longer.) They also stay where they are while time goes
// on.
func partsOf(to time.Time, w time.Duration, most int64) parts {
	seconds, end := int64(w/time.Second), to.Unix()
	step := int64(1)
	for seconds > step*most {
		step *= 2
	}
	from := end - seconds
	from -= mod(from+1, step) // the second before a slot begins
	return parts{from, end, step}
}

func mod(a, b int64) int64 { return (a%b + b) % b }

func (p parts) len() int { return int((p.to - p.from + p.step - 1) / p.step) }

// append adds the questions of a key in all parts, moved back by a while.
func (p parts) append(questions []api.CountQuestion, key string, back time.Duration) []api.CountQuestion {
	for at := p.from; at < p.to; at += p.step {
		end := min(at+p.step, p.to)
		questions = append(questions, api.CountQuestion{Key: key, At: time.Unix(end, 0).Add(-back), Window: time.Duration(end-at) * time.Second})
	}
	return questions
}

// line takes the answers of all parts from the front of bounds.
func (p parts) line(bounds *[]api.Bounds) api.Line {
	counts := take(bounds, p.len())
	line := api.Line{From: at(p.from), StepSeconds: p.step, To: at(p.to), Estimate: estimates(counts)}
	for _, b := range counts {
		if b.Exact {
			continue
		}
		line.Lower, line.Upper = make([]uint64, len(counts)), make([]*uint64, len(counts))
		for i, b := range counts {
			line.Lower[i], line.Upper[i] = b.Lower, b.Upper
		}
		break
	}
	return line
}

func at(seconds int64) api.Time { return api.Time{Time: time.Unix(seconds, 0)} }

func estimates(bounds []api.Bounds) []uint64 {
	list := make([]uint64, len(bounds))
	for i, b := range bounds {
		list[i] = b.Estimate
	}
	return list
}

// take takes n answers from the front.
func take(bounds *[]api.Bounds, n int) []api.Bounds {
	front := (*bounds)[:n]
	*bounds = (*bounds)[n:]
	return front
}

// NodesView is the nodes that count together, what this one holds, and the regions, where it counts for one.
func NodesView(ctx context.Context, s *service.Service, c access.Caller) (api.NodesView, error) {
	cluster, err := s.Nodes(ctx, c)
	if err != nil {
		return api.NodesView{}, err
	}
	stats, err := s.Stats(c)
	if err != nil {
		return api.NodesView{}, err
	}
	view := api.NodesView{Cluster: cluster, Stats: stats}
	if s.Backend().Regions == nil {
		return view, nil
	}
	regions, err := s.Regions(c)
	view.Regions = &regions
	return view, err
}

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
