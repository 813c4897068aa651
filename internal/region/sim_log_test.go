package region

import (
	"context"
	"errors"
)

// simStore is the log of a region.
type simStore struct {
	w        *simWorld
	region   int
	first    uint64
	messages []entry
	acting   *Region // who writes
	inside   bool    // another one does, meanwhile
}

var (
	errSimLost  = errors.New("the answer was lost")
	errSimCrash = errors.New("the process crashed")
)

func (s *simStore) bounds(context.Context) (first, last uint64, err error) {
	return s.first, uint64(len(s.messages)), nil
}

func (s *simStore) append(ctx context.Context, after uint64, m entry) (uint64, error) {
	rng := s.w.rng
	if other := s.w.regions[s.region].nodes[rng.IntN(2)]; s.w.harm && !s.inside && other != nil && other != s.acting && rng.IntN(30) == 0 { // another node believes that it is the owner
		s.inside = true
		if other.follow(ctx) == nil {
			_ = other.write(ctx)
		}
		s.inside = false
	}
	if s.w.harm && rng.IntN(60) == 0 {
		return 0, errSimCrash
	}
	if after != uint64(len(s.messages)) {
		s.w.tally.refused.Add(1)
		return 0, errBehind
	}
	s.w.tally.appends.Add(1)
	s.messages = append(s.messages, m)
	if s.w.harm && rng.IntN(30) == 0 {
		s.w.tally.lost.Add(1)
		return 0, errSimLost
	}
	return uint64(len(s.messages)), nil
}

func (s *simStore) get(_ context.Context, sequence uint64, _ bool) (entry, error) {
	if sequence < s.first || sequence > uint64(len(s.messages)) {
		return entry{}, errNoMessage
	}
	return s.messages[sequence-1], nil
}

func (s *simStore) trim(_ context.Context, upTo uint64) error {
	s.first = max(s.first, upTo+1)
	return nil
}
