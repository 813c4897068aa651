// Package limits answers questions about limits: whether requests may pass, why they might not, and what keys have
// used. It also changes what keys have used: reservations, refunds, grants, resets and permits.
package limits

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/activity"
	"github.com/weir-counter/weir/internal/service/queries"
	"github.com/weir-counter/weir/internal/service/request"
	"github.com/weir-counter/weir/internal/tracing"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

// Allow asks the limits of all requests for a caller, and takes what the requests ask for: all or none. It writes the
// decision into d; a denial is no error. A peek decides, but takes and counts nothing. Allow allocates nothing itself:
// the caller may use d and requests again. d refers to the keys of requests.
func (s *Service) Allow(c access.Caller, requests []admit.Request, peek bool, d *admit.Decision) error {
	if span := tracing.From(d.Context).Child("decision"); span != nil {
		return traced(span, d, func() error { return s.allow(c, requests, peek, d) })
	}
	return s.allow(c, requests, peek, d)
}

// traced calls decide as the part of a trace, and notes what became of the decision.
func traced(span *tracing.Span, d *admit.Decision, decide func() error) error {
	defer span.End()
	under := d.Context
	d.Context = span.Into(under)
	err := decide()
	d.Context = under
	outcome := "allowed"
	switch {
	case err != nil:
		outcome = string(request.As(err).Code)
		span.Fail(outcome)
	case d.Unmatched:
		outcome = "unmatched"
	case !d.Allowed:
		outcome = "denied"
		if d.Denied != nil {
			span.Set("weir.denied_by", d.Denied.Name)
		}
	}
	span.Set("weir.outcome", outcome)
	var names, keys []string
	for i := range d.Results {
		names, keys = append(names, d.Results[i].Name), append(keys, strings.Clone(d.Results[i].Key))
	}
	span.Set("weir.limits", names)
	if span.Keys() {
		span.Set("weir.keys", keys)
	}
	return err
}

func (s *Service) allow(c access.Caller, requests []admit.Request, peek bool, d *admit.Decision) error {
	may, err := s.enter(c, requests)
	if err != nil {
		return err
	}
	d.Tenant = may.Tenant()
	wait, err := s.askPolicies(c, requests, peek, d)
	if wait {
		err = s.wait(c, requests, d)
	}
	if err != nil {
		return s.undecided(may, err)
	}
	if !peek {
		s.banDenied(may, d)
	}
	if d.Never {
		return neverPasses(d)
	}
	if r := d.Undecided(); r != nil {
		return ownerUnreachable(r)
	}
	if !peek {
		s.count(d)
		s.NoteDenial(requests, d)
	}
	return nil
}

// enter begins a request that asks limits, or changes what keys have used by what it took.
func (s *Service) enter(c access.Caller, requests []admit.Request) (access.Rights, error) {
	may, err := s.parts.Gate.Enter(c, auth.Decide)
	if err == nil {
		err = may.CheckDecision(requests)
	}
	if err == nil {
		err = s.tooLong(requests)
	}
	return may, err
}

// askPolicies asks the policies. It occupies the pool of decisions meanwhile, but not while requests wait for their turn.
func (s *Service) askPolicies(c access.Caller, requests []admit.Request, peek bool, d *admit.Decision) (wait bool, err error) {
	if err := s.parts.Pools.Decisions.Enter(c, 1); err != nil {
		return false, err
	}
	defer s.parts.Pools.Decisions.Leave(c, 1)
	if peek {
		return false, s.parts.Policies.Peek(requests, d)
	}
	return s.parts.Policies.TakeOrWait(requests, d)
}

// wait waits until the requests may pass (admit.Live.Wait). If the pool of waiting requests is full, it denies them.
func (s *Service) wait(c access.Caller, requests []admit.Request, d *admit.Decision) error {
	if s.parts.Pools.Waiting.Enter(c, 1) != nil {
		return s.parts.Policies.Refuse(requests, d)
	}
	defer s.parts.Pools.Waiting.Leave(c, 1)
	return s.parts.Policies.Wait(requests, d)
}

// undecided is the error of requests for which no limit was asked. A caller that may not see a policy learns neither that
// it exists nor what keys it is for.
func (s *Service) undecided(may access.Rights, err error) *api.Error {
	e := request.As(err)
	named, ok := errors.AsType[*policy.NamedError](err)
	if !ok {
		return e
	}
	if !may.All() && !s.seesLimit(may, named.Name) {
		return noLimit(named.Name)
	}
	if e.Code == api.CodeInvalidLimit {
		return &api.Error{Code: api.CodeUnknownLimit, Field: e.Field, Message: e.Message}
	}
	return e
}

// ownerUnreachable is the error of requests that could not be decided. They may have used up quota.
func ownerUnreachable(r *admit.Result) *api.Error {
	return &api.Error{Code: api.CodeOwnerUnreachable, Field: "key", Message: fmt.Sprintf(
		"the node that decides limit %s for key %q did not answer, so it is not known whether the request is over the limit: try again in a second; `away: open` in the policy admits such requests", r.Name, request.Clip(r.Key))}
}

// neverPasses is the error of a request for more than a burst: waiting does not help.
// It adds up what all requests want of that key and limit.
func neverPasses(d *admit.Decision) *api.Error {
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
	return &api.Error{Code: api.CodeInvalidCount, Field: "n", Message: fmt.Sprintf("n of %d%s can never pass limit %s of key %q: at most %d at once; ask for fewer at a time, or raise the burst",
		asked, together, r.Name, request.Clip(r.Key), r.Limit.Burst)}
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
			interval = uint64(limit.Limit(*l).Interval()) // a large burst may take longer than an int64 can hold
		}
		if most := s.parts.MaxInlinePer; l.Per > most || interval > uint64(most) {
			return &api.Error{Code: api.CodeInvalidLimit, Field: "limit", Message: fmt.Sprintf("per of a limit sent with a request, and per * burst / n, are at most %s: write a policy for a longer one, or raise --max-inline-per",
				units.FormatDuration(most.Truncate(time.Millisecond)))}
		}
	}
	return nil
}

// DecisionQuestion asks how many decisions of a policy had an outcome, in (At-Window, At].
type DecisionQuestion struct {
	Policy  string
	Outcome string // allowed, denied, shadow_denied
	At      time.Time
	Window  time.Duration
}

// BatchDecisions is Batch of package queries for decisions. It fails unless the caller may read of each policy.
func (s *Service) BatchDecisions(ctx context.Context, c access.Caller, questions []DecisionQuestion) ([]api.Bounds, api.Freshness, error) {
	may, err := s.parts.Gate.Enter(c, auth.Read)
	if err != nil {
		return nil, api.Freshness{}, err
	}
	counts := make([]api.CountQuestion, len(questions))
	checked := ""
	for i, q := range questions {
		if q.Policy != checked {
			if err := s.mayReadLimit(may, q.Policy); err != nil {
				return nil, api.Freshness{}, err
			}
			checked = q.Policy
		}
		counts[i] = api.CountQuestion{Key: admit.HitPrefix + q.Policy + ":" + q.Outcome, At: q.At, Window: q.Window}
	}
	return s.parts.Sources.Batch(ctx, counts)
}

// Prepare makes a limit of a listener's own configuration ready for requests of Allow (admit.Request.Prepared). The
// listener releases it after its last use. As for policies, decisions are counted by the limit's name, and roles refer
// to it by its name.
func (s *Service) Prepare(name string, rule admit.Limit, mode policy.Mode) (*admit.Prepared, error) {
	return s.parts.Policies.Prepare(name, rule, mode)
}

// UseUp takes what is left of the limits of requests with Rest, at most what they ask for. Allow must have just
// permitted the caller to ask these limits: UseUp does not check that again.
func (s *Service) UseUp(c access.Caller, requests []admit.Request, d *admit.Decision) error {
	if err := s.parts.Pools.Decisions.Enter(c, 1); err != nil {
		return err
	}
	defer s.parts.Pools.Decisions.Leave(c, 1)
	return s.parts.Policies.Take(requests, d)
}

// Parts are what a Service works with. All but PolicyFile, Kept, Node and Warned must be given.
type Parts struct {
	Engine     *engine.Engine
	Gate       *access.Gate
	Sources    *queries.Sources
	Pools      *access.Pools
	Policies   *admit.Live
	Listeners  *access.ListenerList // may have limits of their own
	PolicyFile *access.PolicyFile
	Kept       *access.KeptPolicies
	Node       string // this node's name in a cluster
	Log        *slog.Logger
	Live       *activity.Log       // notes each denial
	Warned     func(*admit.Result) // gets each result that warns, and does not wait; nil: nobody does

	MaxInlinePer time.Duration // longest period of a limit that a request brings along
}

// Service asks limits.
type Service struct {
	parts     Parts
	decisions *activity.OutcomeCounts
	denials   *activity.Denials
	reserving sync.Map // IDs of reservations that are being made
	begun     int64    // when the service began, by the engine's clock of limits, in ns
}

func New(p Parts) *Service {
	s := &Service{
		parts: p, decisions: activity.NewOutcomes(p.Policies), begun: p.Engine.Limits().Clock.Now(),
	}
	s.denials = activity.NewDenials(p.Node, s.clockOfDenials)
	return s
}

// count counts a decision that was not a peek, and reports the warnings that it causes.
func (s *Service) count(d *admit.Decision) {
	s.decisions.Count(d)
	if s.parts.Warned == nil || !d.Allowed {
		return
	}
	for i := range d.Results {
		if r := &d.Results[i]; r.Warning && r.Mode == policy.Enforce && r.N > 0 {
			s.parts.Warned(r)
		}
	}
}

// Decisions are the outcomes of all policies, for metrics, with the requests that no policy was for.
func (s *Service) Decisions() (list []activity.OutcomeFigures, unmatched uint64) {
	return s.decisions.List()
}

// listed is a limit by name: a policy of the file, or of a listener.
type listed struct {
	policy.Policy
	listener string // "": the file
}

// listAll returns the policies of the file in order of application, and then the limits of listeners.
func (s *Service) listAll() (list []listed) {
	for _, p := range s.parts.Policies.Set().Policies() {
		list = append(list, listed{Policy: p})
	}
	for _, l := range s.parts.Listeners.Limits() {
		list = append(list, listed{l.Policy, l.Listener})
	}
	return list
}
