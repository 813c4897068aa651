package decisions

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/service/caller"
	"github.com/weir-counter/weir/service/failure"
	"github.com/weir-counter/weir/service/rights"
)

// Allow asks the limits of all requests for a caller, and takes what they ask for: all or none. Into d
// goes what was decided; a denial is no error. peek says what would be decided, and
// takes and counts nothing. It allocates nothing of its own: d and requests may be used
// again, and keys of requests may change after it, which those in d then do too.
func (s *Service) Allow(c caller.Caller, requests []admit.Request, peek bool, d *admit.Decision) error {
	may, err := s.parts.Gate.Enter(c, auth.Decide)
	if err != nil {
		return err
	}
	if err := may.CheckDecision(requests); err != nil {
		return err
	}
	if err := s.tooLong(requests); err != nil {
		return err
	}
	wait, err := s.askPolicies(c, requests, peek, d)
	if wait {
		err = s.wait(c, requests, d)
	}
	if err != nil {
		return s.undecided(may, err)
	}
	if d.Never {
		return neverPasses(d)
	}
	if !peek {
		s.count(d)
		s.NoteDenial(requests, d)
	}
	return nil
}

// askPolicies has a place while it asks, and none while requests wait for their turn.
func (s *Service) askPolicies(c caller.Caller, requests []admit.Request, peek bool, d *admit.Decision) (wait bool, err error) {
	if err := s.parts.Pools.Decisions.Enter(c, 1); err != nil {
		return false, err
	}
	defer s.parts.Pools.Decisions.Leave(c, 1)
	if peek {
		return false, s.parts.Policies.Peek(requests, d)
	}
	return s.parts.Policies.TakeOrWait(requests, d)
}

// wait waits until the requests may pass: admit.Live.Wait. Where as many wait as may, they are denied.
func (s *Service) wait(c caller.Caller, requests []admit.Request, d *admit.Decision) error {
	if s.parts.Pools.Waiting.Enter(c, 1) != nil {
		return s.parts.Policies.Refuse(requests, d)
	}
	defer s.parts.Pools.Waiting.Leave(c, 1)
	return s.parts.Policies.Wait(requests, d)
}

// undecided is the error of a request that no limit was asked for. Who may not see a policy learns
// neither that it is there nor what keys it is for.
func (s *Service) undecided(may rights.Rights, err error) *failure.Error {
	e := failure.As(err)
	named, ok := errors.AsType[*policy.NamedError](err)
	if !ok {
		return e
	}
	if !may.All() && !s.seesLimit(may, named.Name) {
		return &failure.Error{Code: api.CodeUnknownLimit, Field: "limit", Message: "there is no policy " + failure.Clip(named.Name) + " for this key"}
	}
	if e.Code == api.CodeInvalidLimit {
		return &failure.Error{Code: api.CodeUnknownLimit, Field: e.Field, Message: e.Message}
	}
	return e
}

// neverPasses is the error of a request for more than a burst: waiting does not help.
// Checks of one key and limit ask together.
func neverPasses(d *admit.Decision) *failure.Error {
	at := slices.IndexFunc(d.Results, func(r admit.Result) bool { return r.Never && r.Mode == policy.Enforce })
	r := &d.Results[at]
	var asked uint64
	together := ""
	for i := range d.Results {
		if other := &d.Results[i]; other.Name == r.Name && other.Key == r.Key {
			if asked += other.N; i != at {
				together = " together"
			}
		}
	}
	return &failure.Error{Code: api.CodeInvalidCount, Field: "n", Message: fmt.Sprintf("n of %d%s can never pass limit %s of key %q: at most %d at once; ask for fewer at a time, or raise the burst",
		asked, together, r.Name, failure.Clip(r.Key), r.Limit.Burst)}
}

// tooLong is the error of a limit that a request brings along and that would be
// remembered for longer than Parts.MaxInlinePer; nil: there is none.
func (s *Service) tooLong(requests []admit.Request) error {
	for i := range requests {
		l := requests[i].Inline
		if l == nil {
			continue
		}
		interval := uint64(l.Per)
		if l.Burst != 0 && l.Burst != l.N {
			interval = uint64(limit.Limit(*l).Interval()) // more than an int64 has, if a burst takes ages
		}
		if most := s.parts.MaxInlinePer; l.Per > most || interval > uint64(most) {
			return &failure.Error{Code: api.CodeInvalidLimit, Field: "limit", Message: fmt.Sprintf("a limit that a request brings along is for %s at most, and so is per * burst / n: write a policy for a longer one, or start the server with a larger --max-inline-per",
				units.FormatDuration(most.Truncate(time.Millisecond)))}
		}
	}
	return nil
}
