package queries

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/distinct"
	"github.com/weir-counter/weir/internal/engine"
)

// Worldwide answers for all regions. It adds this region's answer and the counts of the other regions' engines on this
// node.
type Worldwide struct {
	Answers // of this region; Delete deletes its hits alone

	s    *Sources
	asOf time.Time // of Answers; zero: as they say

	// Keep has the part of each region kept of the next counts, for RegionCounts.
	Keep  bool
	parts [][]regionPart // of each count, if Keep
}

type regionPart struct {
	region string
	count  engine.Count
	fresh  api.Freshness
}

// others are the regions but this one, as they are before they are read.
func (w *Worldwide) others() map[string]api.Region {
	others := map[string]api.Region{}
	for _, r := range w.s.regions.Regions() {
		if r.Self || r.Gone {
			continue
		}
		others[r.Region] = r
	}
	return others
}

// FreshOf is how new the hits of a region are.
func FreshOf(r api.Region) api.Freshness {
	f := api.Freshness{AsOf: r.AsOf}
	if r.Late {
		f.Late = append(f.Late, api.Late{Node: r.Region, Since: f.AsOf})
	}
	for _, n := range r.Nodes {
		f.Late = append(f.Late, api.Late{Node: r.Region + "/" + n.Node, Since: n.Since})
	}
	return f
}

// with returns the freshness of an answer that includes other regions.
func (w *Worldwide) with(own api.Freshness, others map[string]api.Region) api.Freshness {
	own = w.ownFresh(own)
	own.Late = slices.Clone(own.Late)
	for _, r := range others {
		f := FreshOf(r)
		if f.AsOf.Before(own.AsOf.Time) {
			own.AsOf = f.AsOf
		}
		own.Late = append(own.Late, f.Late...)
	}
	slices.SortFunc(own.Late, func(a, b api.Late) int { return cmp.Compare(a.Node, b.Node) })
	return own
}

func (w *Worldwide) ownFresh(own api.Freshness) api.Freshness {
	if !w.asOf.IsZero() {
		return api.Freshness{AsOf: api.Millis(w.asOf)}
	}
	return own
}

func (w *Worldwide) Counts(ctx context.Context, upTo uint64, questions []api.CountQuestion, counts []engine.Count) ([]engine.Count, api.Freshness, error) {
	others, first := w.others(), len(counts)
	counts, fresh, err := w.Answers.Counts(ctx, upTo, questions, counts)
	if err != nil {
		return counts, fresh, err
	}
	if w.Keep {
		w.parts = make([][]regionPart, len(questions))
		for i := range questions {
			w.parts[i] = append(w.parts[i], regionPart{w.s.regions.Region(), counts[first+i], w.ownFresh(fresh)})
		}
	}
	err = w.s.regions.Read(func(region string, e *engine.Engine) error {
		about, known := others[region]
		if !known {
			return nil // it came a moment ago
		}
		for i := range questions {
			q := &questions[i]
			c, err := e.CountAt(q.At, q.Key, q.Window)
			if err != nil {
				return err
			}
			counts[first+i] = counts[first+i].Plus(c)
			if w.Keep {
				w.parts[i] = append(w.parts[i], regionPart{region, c, FreshOf(about)})
			}
		}
		return nil
	})
	if w.Keep {
		w.addUnknown(others)
	}
	return counts, w.with(fresh, others), err
}

// addUnknown adds the regions that have no windows here, and sorts the parts.
func (w *Worldwide) addUnknown(others map[string]api.Region) {
	for i := range w.parts {
		for name, r := range others {
			if !slices.ContainsFunc(w.parts[i], func(p regionPart) bool { return p.region == name }) {
				w.parts[i] = append(w.parts[i], regionPart{region: name, fresh: FreshOf(r)})
			}
		}
		slices.SortFunc(w.parts[i], func(a, b regionPart) int { return cmp.Compare(a.region, b.region) })
	}
}

func (w *Worldwide) Series(ctx context.Context, upTo uint64, key string, from, to time.Time, step time.Duration) ([]engine.Point, api.Freshness, error) {
	others := w.others()
	points, fresh, err := w.Answers.Series(ctx, upTo, key, from, to, step)
	if err != nil {
		return points, fresh, err
	}
	points = slices.Clone(points)
	err = w.s.regions.Read(func(region string, e *engine.Engine) error {
		if _, known := others[region]; !known {
			return nil
		}
		more, err := e.Series(key, from, to, step)
		if err != nil {
			return err
		}
		for i := range points[:min(len(points), len(more))] {
			points[i].Count = points[i].Plus(more[i].Count)
		}
		return nil
	})
	return points, w.with(fresh, others), err
}

func (w *Worldwide) Keys(ctx context.Context, upTo uint64, prefix, after string, limit int) ([]string, api.Freshness, error) {
	others := w.others()
	keys, fresh, err := w.Answers.Keys(ctx, upTo, prefix, after, limit)
	if err != nil {
		return nil, fresh, err
	}
	keys = slices.Clone(keys)
	err = w.s.regions.Read(func(region string, e *engine.Engine) error {
		if _, known := others[region]; !known {
			return nil
		}
		more, err := e.Keys(prefix, after, limit)
		keys = append(keys, more...)
		return err
	})
	slices.Sort(keys)
	keys = slices.Compact(keys)
	return keys[:min(len(keys), limit)], w.with(fresh, others), err
}

// Distinct is the union of all regions' ids.
func (w *Worldwide) Distinct(ctx context.Context, upTo uint64, q api.CountQuestion) (*distinct.Set, uint64, api.Freshness, error) {
	others := w.others()
	set, gone, fresh, err := w.Answers.Distinct(ctx, upTo, q)
	if err != nil {
		return nil, 0, fresh, err
	}
	err = w.s.regions.Read(func(region string, e *engine.Engine) error {
		if _, known := others[region]; !known {
			return nil
		}
		more, lost, err := e.Distinct(q.At, q.Key, q.Window)
		if gone += min(lost, ^gone); set == nil {
			set = more
		} else if more != nil {
			set.Merge(more)
		}
		return err
	})
	return set, gone, w.with(fresh, others), err
}

// RegionCounts are the parts of regions in the count i of the last Counts.
func (w *Worldwide) RegionCounts(i int) []api.RegionCount {
	parts := w.parts[i]
	list := make([]api.RegionCount, len(parts))
	for i := range parts {
		list[i] = api.RegionCount{Region: parts[i].region, Bounds: SourceBounds(&parts[i].count, &parts[i].fresh), Freshness: parts[i].fresh}
	}
	return list
}

// Top asks each region for its own list and adds up the keys of all lists. It asks for longer lists until no key
// outside of them could be among the first n.
func (w *Worldwide) Top(ctx context.Context, upTo uint64, at time.Time, window time.Duration, n int, prefix string) ([]engine.KeyCount, api.Freshness, error) {
	others := w.others()
	for length := n; ; length = min(4*length, engine.MaxList) {
		list, fresh, err := w.Answers.Top(ctx, upTo, at, window, length, prefix)
		if err != nil {
			return nil, fresh, err
		}
		candidates, unseen := map[string]bool{}, most(list, length)
		note := func(list []engine.KeyCount) {
			for _, kc := range list {
				candidates[kc.Key] = true
			}
		}
		note(list)
		err = w.s.regions.Read(func(region string, e *engine.Engine) error {
			if _, known := others[region]; !known {
				return nil
			}
			list, err := e.Top(at, window, length, prefix)
			note(list)
			unseen += most(list, length)
			return err
		})
		if err != nil {
			return nil, fresh, err
		}
		all, err := w.sums(ctx, upTo, candidates, at, window)
		if err != nil {
			return nil, fresh, err
		}
		if unseen == 0 || len(all) >= n && all[n-1].Estimate >= unseen || length == engine.MaxList {
			return all[:min(n, len(all))], w.with(fresh, others), nil
		}
	}
}

// most is how many hits a key may have at most that is not in a list of so many keys.
func most(list []engine.KeyCount, length int) uint64 {
	if len(list) < length {
		return 0
	}
	return list[len(list)-1].Estimate
}

// sums are the counts of keys, most hits first.
func (w *Worldwide) sums(ctx context.Context, upTo uint64, keys map[string]bool, at time.Time, window time.Duration) ([]engine.KeyCount, error) {
	questions := make([]api.CountQuestion, 0, len(keys))
	for key := range keys {
		questions = append(questions, api.CountQuestion{Key: key, At: at.Truncate(time.Second), Window: window})
	}
	counts, _, err := w.Counts(ctx, upTo, questions, nil)
	all := make([]engine.KeyCount, len(counts))
	for i, c := range counts {
		all[i] = engine.KeyCount{Key: questions[i].Key, Count: c}
	}
	slices.SortFunc(all, func(a, b engine.KeyCount) int {
		return cmp.Or(cmp.Compare(b.Estimate, a.Estimate), cmp.Compare(a.Key, b.Key))
	})
	return all, err
}
