package limits

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/request"
)

// ResetLimit forgets what a key, as it is counted, has used of a limit, and takes its grant
// back: admit.Live.Reset. Of a policy it is role admin's. What keys have used of limits that
// requests brought along is also theirs who bring them, by role decide.
func (s *Service) ResetLimit(ctx context.Context, c access.Caller, name, key string) (_ api.ResetAnswer, err error) {
	defer func() { s.parts.Gate.Audit(ctx, c, "reset limit", request.Clip(name)+" of "+request.Clip(key), err) }()
	role := auth.Admin
	if s.parts.Policies.IsInline(name, key) {
		role = auth.Decide
	}
	may, err := s.parts.Gate.Enter(c, role)
	if err != nil && role == auth.Decide {
		may, err = s.parts.Gate.Enter(c, auth.Admin)
	}
	if err == nil {
		err = s.mayChange(may, name, key)
	}
	if err != nil {
		return api.ResetAnswer{}, err
	}
	made, known, err := s.parts.Policies.Reset(name, key)
	switch {
	case err != nil:
		return api.ResetAnswer{}, err
	case !known:
		return api.ResetAnswer{}, s.unknownLimit(may, name)
	}
	return api.ResetAnswer{Name: made.Name, Key: key, Was: made.Was, Remaining: made.Remaining}, nil
}

// ResetInline forgets what a key has used of the limits that requests defined themselves. It resets the names that the
// caller may ask, by role decide or admin. It returns for how many limits there was something to forget.
func (s *Service) ResetInline(ctx context.Context, c access.Caller, key string) (was int, err error) {
	defer func() { s.parts.Gate.Audit(ctx, c, "reset inline limits", request.Clip(key), err) }()
	may, err := s.parts.Gate.Enter(c, auth.Decide)
	if admin, refused := s.parts.Gate.Enter(c, auth.Admin); err != nil && refused == nil {
		may, err = admin, nil
	}
	if err == nil {
		err = may.CheckNamed(key)
	}
	if err == nil && !may.AllLimits() {
		err = may.Refuse("", "role "+may.Role.String()+" of this identity is for limits by name: name the one to reset")
	}
	if err != nil {
		return 0, err
	}
	return s.parts.Policies.ResetInline(ctx, key)
}

// GrantLimit gives a key, as it is counted, n admissions in addition to a limit until a time: admit.Live.Grant. An n of
// 0 takes back what is left of a grant.
func (s *Service) GrantLimit(ctx context.Context, c access.Caller, name, key string, n uint64, until time.Time) (_ api.GrantAnswer, err error) {
	defer func() {
		s.parts.Gate.Audit(ctx, c, "grant", fmt.Sprintf("%d of %s to %s", n, request.Clip(name), request.Clip(key)), err)
	}()
	may, err := s.enterChange(c, name, key)
	if err == nil && n > 0 {
		err = may.TakeShare(access.Grants, engine.MaxGrants, func() (all int) {
			s.parts.Policies.Grants(func(_, key string) { all += ones(may.Holds(key)) })
			return all
		})
	}
	if err != nil {
		return api.GrantAnswer{}, err
	}
	made, known, err := s.parts.Policies.Grant(name, key, n, until)
	switch {
	case err != nil:
		return api.GrantAnswer{}, err
	case !known:
		return api.GrantAnswer{}, s.unknownLimit(may, name)
	}
	answer := api.GrantAnswer{Name: made.Name, Key: key, N: n, Remaining: made.Remaining}
	if n > 0 {
		answer.Until = &api.Time{Time: until}
	}
	return answer, nil
}

// enterChange begins a change of a limit's key, which is role admin's.
func (s *Service) enterChange(c access.Caller, name, key string) (access.Rights, error) {
	may, err := s.parts.Gate.Enter(c, auth.Admin)
	if err == nil {
		err = s.mayChange(may, name, key)
	}
	return may, err
}

// mayChange fails unless the role is for a limit and one of its keys, whether they are there or not. Who may not read a limit learns
// of it only that it counts the key.
func (s *Service) mayChange(may access.Rights, name, key string) error {
	if err := may.CheckNamed(key); err != nil {
		return err
	}
	if !may.AllLimits() && !may.Limit(name) {
		return may.Refuse("name", "role "+may.Role.String()+" of this identity is not for the limit "+request.Clip(name))
	}
	if !may.All() && !s.parts.Policies.MayCount(name, key) && !s.seesLimit(may, name) {
		return noLimit(name)
	}
	return nil
}

// Refund gives back what Allow took for the same requests at one time: admit.Live.Refund. The zero time stands for the
// newest admissions. Role decide suffices.
//
// An idempotency key has 1 to engine.MaxOnceKeyBytes bytes. A repetition within ten minutes gives nothing back and
// returns the first answer. A repetition with another content is refused (CodeKeyReused).
func (s *Service) Refund(ctx context.Context, c access.Caller, requests []admit.Request, taken time.Time, key string) (answer api.RefundAnswer, err error) {
	defer func() {
		if len(requests) > 0 {
			s.parts.Gate.Audit(ctx, c, "refund", fmt.Sprintf("%d of %s, and %d more", requests[0].N, request.Clip(requests[0].Key), len(requests)-1), err)
		}
	}()
	made, err := s.giveBack(ctx, c, requests, taken, key)
	answer.Limits = make([]api.LimitRefund, len(made))
	for i, m := range made {
		answer.Limits[i] = api.LimitRefund{Name: m.Name, Key: m.Key, Refunded: m.Freed, Remaining: m.Remaining}
		if i == 0 || m.Freed < answer.Refunded {
			answer.Refunded = m.Freed
		}
	}
	return answer, err
}

// GiveBack is Refund of what was taken last, without a line in the audit log: for a listener whose requests give back all the time.
func (s *Service) GiveBack(c access.Caller, requests []admit.Request) ([]admit.Changed, error) {
	return s.giveBack(context.Background(), c, requests, time.Time{}, "")
}

func (s *Service) giveBack(ctx context.Context, c access.Caller, requests []admit.Request, taken time.Time, key string) ([]admit.Changed, error) {
	may, err := s.enter(c, requests)
	if err != nil {
		return nil, err
	}
	if err := s.parts.Pools.Decisions.Enter(c, 1); err != nil {
		return nil, err
	}
	defer s.parts.Pools.Decisions.Leave(c, 1)
	if key != "" {
		// The receipt tells contents apart, and no more: each limit's part knows itself whether it was made.
		key = c.Own(key)
		if _, _, err := s.parts.Engine.OnceFrom(ctx, c.String(), key, contentOf(taken.AppendFormat(nil, time.RFC3339Nano), requests), func() []byte { return []byte{1} }); err != nil {
			return nil, err
		}
	}
	made, err := s.parts.Policies.Refund(requests, taken, key, may.Tenant())
	if err != nil {
		return nil, s.undecided(may, err)
	}
	return made, nil
}
