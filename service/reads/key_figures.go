package reads

import (
	"context"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service/failure"
	"github.com/weir-counter/weir/service/sources"
)

// BusiestKeys is the n keys with most hits in a window among those that begin with one of prefixes, of which none is
// within another. It is for whoever MayReadFigures: callers are not asked for. O(keys) for each prefix.
func (s *Service) BusiestKeys(ctx context.Context, w time.Duration, n int, prefixes []string) ([]string, error) {
	top, _, err := topOf(ctx, s.parts.Sources.Own(), s.parts.Sources.Now(), TopQuery{Window: w, N: n}, prefixes)
	if err != nil {
		return nil, failure.As(err)
	}
	keys := make([]string, len(top))
	for i, k := range top {
		keys[i] = k.Key
	}
	return keys, nil
}

// KeyFigures counts keys in windows that end now: for each key, each window. It is for the same callers as BusiestKeys.
func (s *Service) KeyFigures(ctx context.Context, keys []string, windows []time.Duration) ([]api.Bounds, error) {
	now := s.parts.Sources.Now()
	questions := make([]sources.CountQuestion, 0, len(keys)*len(windows))
	for _, key := range keys {
		for _, w := range windows {
			questions = append(questions, sources.CountQuestion{Key: key, At: now, Window: w})
		}
	}
	bounds, _, err := s.parts.Sources.BoundsOf(ctx, questions)
	return bounds, err
}
