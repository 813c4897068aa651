package sources

import (
	"cmp"
	"context"
	"slices"
	"time"

	weir "github.com/weir-counter/weir"
)

// Top asks each region for its own list, adds up the keys of all lists, and asks for longer ones until no key that is in
// none of them could be among the first n.
func (w *Worldwide) Top(ctx context.Context, at time.Time, window time.Duration, n int, prefix string) ([]weir.KeyCount, Fresh, error) {
	others := w.others()
	for length := n; ; length = min(4*length, weir.MaxList) {
		list, fresh, err := w.own.Top(ctx, at, window, length, prefix)
		if err != nil {
			return nil, fresh, err
		}
		candidates, unseen := map[string]bool{}, most(list, length)
		note := func(list []weir.KeyCount) {
			for _, kc := range list {
				candidates[kc.Key] = true
			}
		}
		note(list)
		err = w.s.regions.Read(func(region string, e *weir.Engine) error {
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
		all, err := w.sums(ctx, candidates, at, window)
		if err != nil {
			return nil, fresh, err
		}
		if unseen == 0 || len(all) >= n && all[n-1].Estimate >= unseen || length == weir.MaxList {
			return all[:min(n, len(all))], w.with(fresh, others), nil
		}
	}
}

// most is how many hits a key may have at most that is not in a list of so many keys.
func most(list []weir.KeyCount, length int) uint64 {
	if len(list) < length {
		return 0
	}
	return list[len(list)-1].Estimate
}

// sums are the counts of keys, most hits first.
func (w *Worldwide) sums(ctx context.Context, keys map[string]bool, at time.Time, window time.Duration) ([]weir.KeyCount, error) {
	questions := make([]CountQuestion, 0, len(keys))
	for key := range keys {
		questions = append(questions, CountQuestion{key, at.Truncate(time.Second), window})
	}
	counts, _, err := w.Counts(ctx, questions, nil)
	all := make([]weir.KeyCount, len(counts))
	for i, c := range counts {
		all[i] = weir.KeyCount{Key: questions[i].Key, Count: c}
	}
	slices.SortFunc(all, func(a, b weir.KeyCount) int {
		return cmp.Or(cmp.Compare(b.Estimate, a.Estimate), cmp.Compare(a.Key, b.Key))
	})
	return all, err
}
