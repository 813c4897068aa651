package decisions

import (
	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/service/caller"
	"github.com/weir-counter/weir/service/failure"
)

// Prepare makes a limit of a door's own configuration ready, for requests of Allow that have it
// (admit.Request.Prepared). The door releases it once it asks it no more. Decisions of it are counted by its
// name, and roles have it by its name, as those of policies.
func (s *Service) Prepare(name string, of admit.Limit, mode policy.Mode) (*admit.Prepared, error) {
	p, err := s.parts.Policies.Prepare(name, of, mode)
	if err != nil {
		return nil, failure.As(err)
	}
	return p, nil
}

// UseUp takes what requests with Rest ask for, where it is there, for a caller whom Allow has just permitted to ask their
// limits: it is no request of its own.
func (s *Service) UseUp(c caller.Caller, requests []admit.Request, d *admit.Decision) error {
	if err := s.parts.Pools.Decisions.Enter(c, 1); err != nil {
		return err
	}
	defer s.parts.Pools.Decisions.Leave(c, 1)
	if err := s.parts.Policies.Take(requests, d); err != nil {
		return failure.As(err)
	}
	return nil
}
