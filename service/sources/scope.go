package sources

import (
	"context"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service/failure"
	"github.com/weir-counter/weir/service/parse"
)

// Within is who answers a question of a scope, once what it waits for is there.
func (s *Sources) Within(ctx context.Context, scope parse.Scope, fresh time.Duration) (Asked, error) {
	regions := s.regions
	switch {
	case scope == parse.Node:
		return Asked{of: s, Answers: held{s}}, nil
	case scope == parse.Region || scope == "" && regions == nil:
		return s.Await(ctx, fresh)
	case regions == nil:
		return Asked{}, &failure.Error{Code: api.CodeInvalidParameter, Field: "scope", Message: "this server counts for no region: start it with --region, or ask for scope region"}
	}
	since, began := s.Wall(), time.Now()
	a, err := s.Await(ctx, fresh)
	if err != nil {
		return a, err
	}
	if fresh != 0 {
		if err := s.awaitRegions(ctx, since, min(fresh, parse.LongestFresh)-time.Since(began)); err != nil {
			return a, err
		}
	}
	a.Answers, a.asOf = &Worldwide{s: s, own: a.Answers, asOf: a.asOf}, time.Time{}
	return a, nil
}

// regionsPoll is how often a question that waits for regions looks.
const regionsPoll = 20 * time.Millisecond

// awaitRegions waits until all that other regions took before a time is here, by their clocks.
func (s *Sources) awaitRegions(ctx context.Context, since time.Time, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, max(within, 0))
	defer cancel()
	poll := time.NewTicker(regionsPoll)
	defer poll.Stop()
	for {
		var missing []string
		for _, r := range s.regions.Regions() {
			if !r.Own && !r.Gone && (!r.Known || r.AsOf.Before(since)) {
				missing = append(missing, r.Name)
			}
		}
		if missing == nil {
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return &failure.Error{Code: api.CodeNotFresh, Field: "fresh", Missing: missing,
				Message: "not all hits of other regions are here, those of " + strings.Join(missing, ", ") + " are missing: wait longer, or ask without fresh for what is known"}
		}
	}
}
