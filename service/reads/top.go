package reads

import (
	"cmp"
	"context"
	"slices"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
	"github.com/weir-counter/weir/service/backend"
	"github.com/weir-counter/weir/service/caller"
	"github.com/weir-counter/weir/service/failure"
	"github.com/weir-counter/weir/service/parse"
	"github.com/weir-counter/weir/service/sources"
)

// TopQuery asks for the keys with the most hits.
type TopQuery struct {
	Window time.Duration // whole seconds
	N      int
	Prefix string        // only keys that begin with it
	At     time.Time     // the end of the window; zero is Now
	Fresh  time.Duration // as of a CountQuery
	Scope  parse.Scope
}

// Top lists keys, most hits first: those that the caller may read, and no word of others. O(keys)
// for each of its prefixes.
func (s *Service) Top(ctx context.Context, c caller.Caller, q TopQuery) (api.TopAnswer, error) {
	may, err := s.parts.Gate.Enter(c, auth.Read)
	if err != nil {
		return api.TopAnswer{}, err
	}
	parts, err := may.PartsOf(q.Prefix)
	if err != nil {
		return api.TopAnswer{}, err
	}
	asked, err := s.parts.Sources.Within(ctx, q.Scope, q.Fresh)
	if err != nil {
		return api.TopAnswer{}, err
	}
	at := asked.At(q.At)
	keys, fresh, err := topOf(ctx, asked.Answers, at, q, parts)
	if err != nil {
		return api.TopAnswer{}, failure.As(err)
	}
	fresh = asked.AboutPrefixes(fresh, parts)
	answer := api.TopAnswer{
		WindowSeconds: int64(q.Window / time.Second), At: api.Time{Time: at}, Prefix: q.Prefix,
		Keys: make([]api.TopKey, len(keys)), Freshness: fresh.Answer(),
	}
	for i, k := range keys {
		answer.Keys[i] = api.TopKey{Key: k.Key, Bounds: sources.Bounds(&k.Count, &fresh)}
	}
	return answer, nil
}

// topOf merges the lists of several prefixes, of which none is within another.
func topOf(ctx context.Context, answers sources.Answers, at time.Time, q TopQuery, prefixes []string) (all []weir.KeyCount, fresh sources.Fresh, err error) {
	for i, prefix := range prefixes {
		keys, of, err := answers.Top(ctx, at, q.Window, q.N, prefix)
		if err != nil {
			return nil, fresh, err
		}
		if i == 0 { // the others are no older
			fresh = of
		}
		if len(prefixes) == 1 {
			return keys, fresh, nil
		}
		fresh.Late = lateInAny(fresh.Late, of.Late)
		all = append(all, keys...)
	}
	slices.SortFunc(all, func(a, b weir.KeyCount) int {
		return cmp.Or(cmp.Compare(b.Estimate, a.Estimate), cmp.Compare(a.Key, b.Key))
	})
	return all[:min(len(all), q.N)], fresh, nil
}

// lateInAny is who is late in one of two answers.
func lateInAny(a, b []backend.LateNode) []backend.LateNode {
	for _, late := range b {
		if !slices.ContainsFunc(a, func(has backend.LateNode) bool { return has.Name == late.Name }) {
			a = append(slices.Clip(a), late)
		}
	}
	return a
}
