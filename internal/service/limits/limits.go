package limits

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/queries"
	"github.com/weir-counter/weir/internal/service/request"
	"github.com/weir-counter/weir/internal/units"
)

// Limits lists the policies that the caller may read, in order of application, and then the limits of listeners. Each
// has the numbers of its decisions in a window.
func (s *Service) Limits(ctx context.Context, c access.Caller, w time.Duration) (api.LimitsAnswer, error) {
	may, err := s.parts.Gate.Enter(c, auth.Read)
	if err != nil {
		return api.LimitsAnswer{}, err
	}
	policies := slices.DeleteFunc(s.listAll(), func(p listed) bool { return !may.Sees(p.Name, p.Keys) })
	answer := api.LimitsAnswer{
		WindowSeconds: int64(w / time.Second), At: api.Time{Time: s.parts.Sources.Now()}, Limits: make([]api.LimitPolicy, len(policies)),
	}
	answer.AtOnce = s.atOnce(may)
	if may.All() {
		answer.File = s.parts.PolicyFile.State()
	}
	questions := make([]api.CountQuestion, 0, 3*len(policies))
	for i, p := range policies {
		made := p.Row()
		made.Listener = p.listener
		for _, outcome := range []string{"allowed", "denied", "shadow_denied"} {
			questions = append(questions, api.CountQuestion{Key: admit.HitPrefix + p.Name + ":" + outcome, At: answer.At.Time, Window: w})
		}
		answer.Limits[i] = made
	}
	open := s.reserved(may, "")
	counts, fresh, err := s.parts.Sources.Own().Counts(ctx, 0, questions, nil)
	if err != nil {
		return api.LimitsAnswer{}, err
	}
	for i := range answer.Limits {
		made := &answer.Limits[i]
		made.Reserved = open[made.Name]
		made.Allowed, made.Denied, made.ShadowDenied = queries.SourceBounds(&counts[3*i], &fresh), queries.SourceBounds(&counts[3*i+1], &fresh), queries.SourceBounds(&counts[3*i+2], &fresh)
	}
	return answer, nil
}

// mostLimitKeys is how many keys LimitKeys looks at for a caller who may not read all keys.
const mostLimitKeys = 10_000

// LimitKeys lists the keys that have used most of a policy, at most n of them. All keys that the policy
// is for must be the caller's. Of those that it counts, the caller's are listed.
func (s *Service) LimitKeys(c access.Caller, name string, n int) (api.LimitKeysAnswer, error) {
	may, err := s.parts.Gate.Enter(c, auth.Read)
	if err != nil {
		return api.LimitKeysAnswer{}, err
	}
	for _, concurrency := range s.parts.Policies.Set().Concurrencies() {
		if concurrency.Name == name && may.Sees(concurrency.Name, concurrency.Keys) {
			return s.permitKeys(may, &concurrency, n), nil
		}
	}
	if err := s.mayReadLimit(may, name); err != nil {
		return api.LimitKeysAnswer{}, err
	}
	l, known := s.parts.Policies.Limit(name)
	if !known {
		return api.LimitKeysAnswer{}, s.unknownLimit(may, name)
	}
	looked := n
	if !may.All() {
		looked = max(n, mostLimitKeys)
	}
	overrides, err := s.overrides(name)
	if err != nil {
		return api.LimitKeysAnswer{}, err
	}
	uses, err := l.KeysUnder(looked, overrides)
	if err != nil {
		return api.LimitKeysAnswer{}, err
	}
	uses = slices.DeleteFunc(uses, func(u engine.KeyUse) bool { return !may.Holds(u.Key) })
	uses = uses[:min(n, len(uses))]
	answer, open := api.LimitKeysAnswer{Name: name, Keys: make([]api.LimitKey, len(uses))}, s.reserved(may, name)
	for i, u := range uses {
		banned := s.parts.Engine.Limits().Banned(name, u.Key)
		answer.Keys[i] = api.LimitKey{
			Key: u.Key, Used: u.Used, Burst: u.Limit.Burst, Remaining: u.Remaining,
			Share: u.Share(), ResetSeconds: request.Milliseconds(max(u.Reset, banned)).Seconds(), BannedSeconds: banned.Seconds(), Reserved: open[u.Key],
		}
	}
	return answer, nil
}

// reserved is what open reservations of keys that the caller may read have reserved: of each limit, or of each key of one
// that is named.
func (s *Service) reserved(may access.Rights, limit string) map[string]*api.Reserved {
	open := map[string]*api.Reserved{}
	s.parts.Engine.Limits().OpenReservations(func(name, key string, n uint64) {
		if limit != "" && name != limit || !may.Holds(key) {
			return
		}
		under := name
		if limit != "" {
			under = key
		}
		if open[under] == nil {
			open[under] = &api.Reserved{}
		}
		open[under].Reservations++
		open[under].N += n
	})
	return open
}

// overrides returns what limit of its own a counted key has of a policy, as this node decides it.
func (s *Service) overrides(name string) (own func(key string) (engine.Limit, bool), err error) {
	set := s.parts.Policies.Set()
	at, ok := set.Place(name)
	if !ok {
		return func(string) (none engine.Limit, ok bool) { return none, false }, nil
	}
	p := set.At(at)
	limits, keys := make([]engine.Limit, len(p.Overrides)), map[string]int{}
	for i, o := range p.Overrides {
		if limits[i], _, err = s.parts.Policies.Here(p, o.Limit); err != nil {
			return nil, err
		}
		if !o.Range.IsValid() {
			keys[o.Key] = i
		}
	}
	return func(key string) (limit engine.Limit, ok bool) {
		i, ok := keys[key]
		if !ok {
			if i, ok = set.Ranged(at, key); !ok {
				return limit, false
			}
		}
		return limits[i], true
	}, nil
}

// mayReadLimit fails in the same way for a policy that does not exist and for one that the caller may not read. So a
// caller does not learn which policies exist.
func (s *Service) mayReadLimit(may access.Rights, name string) error {
	if may.All() {
		return nil
	}
	if s.seesLimit(may, name) {
		return nil
	}
	return may.Refuse("name", "role read of this identity is not for the limit "+request.Clip(name)+", or not for all of its keys")
}

// seesLimit reports whether there is a limit of the name, and it is for the role.
func (s *Service) seesLimit(may access.Rights, name string) bool {
	return slices.ContainsFunc(s.listAll(), func(p listed) bool { return p.Name == name && may.Sees(p.Name, p.Keys) })
}

// unknownLimit says which policies there are, in the words of package policy, to who may know all.
func (s *Service) unknownLimit(may access.Rights, name string) error {
	if !may.All() {
		return noLimit(name)
	}
	err := s.parts.Policies.Peek([]admit.Request{{Key: "?", Limit: name}}, new(admit.Decision))
	if unknown, ok := errors.AsType[*engine.Error](err); ok && unknown.Code == api.CodeInvalidLimit {
		return &api.Error{Code: api.CodeUnknownLimit, Field: "name", Message: unknown.Message}
	}
	return &api.Error{Code: api.CodeUnknownLimit, Field: "name", Message: fmt.Sprintf("limit %q was added to the policy file just now: ask again", request.Clip(name))}
}

// noLimit is the error for a limit that does not exist, or that the caller may not know of.
func noLimit(name string) *api.Error {
	return &api.Error{Code: api.CodeUnknownLimit, Field: "limit", Message: "there is no policy " + request.Clip(name) + " for this key"}
}

// ForgetInline forgets what keys have used of the limits of a name that requests brought along, or with "" of all such.
func (s *Service) ForgetInline(ctx context.Context, c access.Caller, name string) (_ api.ForgetAnswer, err error) {
	defer func() { s.parts.Gate.Audit(ctx, c, "forget inline limits", cmp.Or(name, "all"), err) }()
	if _, err := s.parts.Gate.EnterAll(c, auth.Admin); err != nil {
		return api.ForgetAnswer{}, err
	}
	n, err := s.parts.Engine.Limits().ForgetInline(name)
	if err != nil {
		return api.ForgetAnswer{}, err
	}
	s.parts.Log.Info("deleted the usage of inline limits", "name", name, "states", n)
	return api.ForgetAnswer{Forgotten: n}, nil
}

// BanKey bans a counted key under a policy for length, whatever it has used: see admit.Live.Ban. It needs role admin.
func (s *Service) BanKey(ctx context.Context, c access.Caller, name, key string, length time.Duration) (_ api.BanAnswer, err error) {
	defer func() {
		s.parts.Gate.Audit(ctx, c, "ban", request.Clip(key)+" of "+request.Clip(name)+" for "+units.FormatDuration(length), err)
	}()
	may, err := s.enterChange(c, name, key)
	if err != nil {
		return api.BanAnswer{}, err
	}
	if err := s.mayBan(may); err != nil {
		return api.BanAnswer{}, err
	}
	if err := s.parts.Policies.Ban(name, key, length); err != nil {
		refused, ok := errors.AsType[*engine.Error](err)
		if ok && refused.Code != api.CodeOverloaded && !may.All() && !s.seesLimit(may, name) {
			return api.BanAnswer{}, noLimit(name)
		}
		if ok && refused.Code == api.CodeInvalidLimit {
			return api.BanAnswer{}, &api.Error{Code: api.CodeUnknownLimit, Field: "limit", Message: refused.Message}
		}
		return api.BanAnswer{}, err
	}
	return api.BanAnswer{Name: name, Key: key, Until: api.Time{Time: s.parts.Sources.Now().Add(length)}}, nil
}

// mayBan is an error for an identity that has its share of bans.
func (s *Service) mayBan(may access.Rights) error {
	return may.TakeShare(access.Bans, engine.MaxBans, func() (n int) {
		for _, b := range s.parts.Engine.Limits().Bans(engine.MaxBans) {
			n += ones(may.Holds(b.Key))
		}
		return n
	})
}

// banDenied bans the keys that a decision of an identity for some keys has denied, within its share.
func (s *Service) banDenied(may access.Rights, d *admit.Decision) {
	if d.Tenant != "" && !d.Allowed {
		s.parts.Policies.BanDenied(d, func() error { return s.mayBan(may) })
	}
}

func ones(is bool) int {
	if is {
		return 1
	}
	return 0
}

// UnbanKey lifts the ban of a key: admit.Live.Unban. It is role admin's.
func (s *Service) UnbanKey(ctx context.Context, c access.Caller, name, key string) (_ api.UnbanAnswer, err error) {
	defer func() { s.parts.Gate.Audit(ctx, c, "unban", request.Clip(key)+" of "+request.Clip(name), err) }()
	if _, err := s.enterChange(c, name, key); err != nil {
		return api.UnbanAnswer{}, err
	}
	was, err := s.parts.Policies.Unban(name, key)
	return api.UnbanAnswer{Name: name, Key: key, Was: was, Full: s.parts.Policies.Full(name, key)}, err
}

// Bans lists the keys that are banned now and that the caller may read of, at most n, those whose ban ends last first.
func (s *Service) Bans(c access.Caller, n int) (api.BansAnswer, error) {
	may, err := s.parts.Gate.Enter(c, auth.Read)
	if err != nil {
		return api.BansAnswer{}, err
	}
	answer := api.BansAnswer{Bans: []api.BanAnswer{}}
	for _, b := range s.parts.Engine.Limits().Bans(engine.MaxBans) {
		if len(answer.Bans) == n {
			break
		}
		if may.Limit(b.Name) && may.Holds(b.Key) {
			answer.Bans = append(answer.Bans, api.BanAnswer{Name: b.Name, Key: b.Key, Until: api.Millis(b.Until)})
		}
	}
	return answer, nil
}
