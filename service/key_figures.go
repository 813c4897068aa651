package service

import (
	"context"
	"time"

	"github.com/weir-counter/weir/api"
)

// BusiestKeys is the n keys with most hits in a window among those that begin with one of prefixes, of which none is
// within another. It is for whoever MayReadFigures: callers are not asked for. O(keys) for each prefix.
func (s *Service) BusiestKeys(ctx context.Context, w time.Duration, n int, prefixes []string) ([]string, error) {
	top, _, err := topOf(ctx, s.answers, s.Now(), TopQuery{Window: w, N: n}, prefixes)
	if err != nil {
		return nil, AsError(err)
	}
	keys := make([]string, len(top))
	for i, k := range top {
		keys[i] = k.Key
	}
	return keys, nil
}

// KeyFigures counts keys in windows that end now: for each key, each window. It is for whom BusiestKeys is.
func (s *Service) KeyFigures(ctx context.Context, keys []string, windows []time.Duration) ([]api.Bounds, error) {
	now := s.Now()
	questions := make([]CountQuestion, 0, len(keys)*len(windows))
	for _, key := range keys {
		for _, w := range windows {
			questions = append(questions, CountQuestion{key, now, w})
		}
	}
	counts, fresh, err := s.answers.Counts(ctx, questions, nil)
	if err != nil {
		return nil, AsError(err)
	}
	bounds := make([]api.Bounds, len(counts))
	for i := range counts {
		bounds[i] = boundsOf(&counts[i], &fresh)
	}
	return bounds, nil
}
