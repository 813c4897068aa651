package limits

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/engine/admission"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/request"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/policy"
)

// permitOf is what the ID of a permit says: base64 of the limit's name, the key, and the number of its holder. So
// a server that has just started knows what a heartbeat is for.
type permitOf struct {
	limit, key string
	holder     uint64
}

func (p permitOf) id() string {
	b := wire.AppendText(wire.AppendText(nil, p.limit), p.key)
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(b, p.holder))
}

func permitOfID(id string) (p permitOf, err error) {
	b, err := base64.RawURLEncoding.DecodeString(id)
	r := wire.NewReader(b)
	p = permitOf{limit: r.Text(len(b)), key: r.Text(len(b))}
	number := r.Bytes(8)
	if err != nil || !r.Done() {
		return p, &api.Error{Code: api.CodeInvalidParameter, Field: "id", Message: "id " + request.Clip(id) + " is no permit's: send the id of the answer"}
	}
	p.holder = binary.BigEndian.Uint64(number)
	return p, nil
}

// age is for how long the service has answered, by the clock that limits are kept by.
func (s *Service) age() time.Duration {
	return time.Duration(s.parts.Engine.Limits().Clock.Now() - s.begun)
}

// unlimitedTTL is the TTL of a permit for a key that has no limit.
const unlimitedTTL = 30 * time.Second

// TakePermit gives the caller a permit of every concurrency limit that applies to a key, or of the named one. A denial
// is an *api.Error of api.CodeAtOnce.
func (s *Service) TakePermit(c access.Caller, key, limit string) (api.PermitAnswer, error) {
	var number [8]byte
	_, _ = rand.Read(number[:]) // it does not fail
	p := permitOf{limit, key, binary.BigEndian.Uint64(number[:])}
	limits, may, err := s.enterPermit(c, p)
	if err != nil {
		return api.PermitAnswer{}, err
	}
	defer s.parts.Pools.Decisions.Leave(c, 1)
	for range limits {
		if err := may.TakeShare(access.Permits, MaxPermits, func() (n int) {
			s.parts.Policies.Permits(func(_, key string, held int) { n += held * ones(may.Holds(key)) })
			return n
		}); err != nil {
			return api.PermitAnswer{}, err
		}
	}
	o, err := s.takePermit(p.holder, limits)
	if err != nil {
		return api.PermitAnswer{}, err
	}
	for i := range limits {
		switch {
		case o.OK:
			s.countPermit(limits[i].Name, "allowed")
		case o.Denied != nil && o.Denied.Name == limits[i].Name:
			s.countPermit(limits[i].Name, "denied")
		}
	}
	switch d := o.Denied; {
	case o.OK:
		return permitAnswer(p, limits), nil
	case o.Starts:
		return api.PermitAnswer{}, &api.Error{Code: api.CodeAtOnce, RetryAfter: o.Wait, Message: fmt.Sprintf(
			"limit %s: this server has just started, and does not know yet who holds a permit: it knows in %s, when a ttl is over, by their heartbeats", d.Name, units.FormatDuration(request.Milliseconds(o.Wait)))}
	default:
		return api.PermitAnswer{}, &api.Error{Code: api.CodeAtOnce, RetryAfter: o.Wait, Message: fmt.Sprintf(
			"limit %s: %d of %d permits of key %s are held; one is free when it is released, or in %s if its holder is silent", d.Name, o.Held, d.Most, request.Clip(d.Key), units.FormatDuration(request.Milliseconds(o.Wait)))}
	}
}

// RenewPermit is a heartbeat: the permit is held for its ttl more. One that was lost is an *Error of
// api.CodePermitLost: its holder must stop.
func (s *Service) RenewPermit(c access.Caller, id string) (answer api.PermitAnswer, err error) {
	err = s.withPermit(c, id, func(p permitOf, limits []policy.AtOnce) error {
		o, err := s.renewPermit(p.holder, limits)
		if err == nil && !o.OK {
			err = &api.Error{Code: api.CodePermitLost, Field: "id", Message: "the permit is no longer held: no heartbeat arrived within its ttl, or it was released. Stop, and take another"}
		}
		if err == nil {
			answer = permitAnswer(p, limits)
		}
		return err
	})
	return answer, err
}

// ReleasePermit gives a permit back. It may be sent again.
func (s *Service) ReleasePermit(c access.Caller, id string) (answer api.ReleaseAnswer, err error) {
	err = s.withPermit(c, id, func(p permitOf, limits []policy.AtOnce) (err error) {
		answer.Released, err = s.parts.Policies.ReleasePermit(p.holder, limits)
		return err
	})
	return answer, err
}

// withPermit does what takes a place for the permit of an ID.
func (s *Service) withPermit(c access.Caller, id string, do func(permitOf, []policy.AtOnce) error) error {
	p, err := permitOfID(id)
	if err != nil {
		return err
	}
	limits, _, err := s.enterPermit(c, p)
	if err != nil {
		return err
	}
	defer s.parts.Pools.Decisions.Leave(c, 1)
	return do(p, limits)
}

// takePermit gives a holder a permit of all limits, or of none. A server alone learns by heartbeats who held one before
// its start. Nobody gets a new one for one ttl, so that never more than the limit are held across a restart.
func (s *Service) takePermit(holder uint64, limits []policy.AtOnce) (o PermitOutcome, err error) {
	for i := range limits {
		if wait := limits[i].TTL - s.age(); wait > 0 && !s.parts.Policies.Together() {
			return PermitOutcome{admit.Permitted{Denied: &limits[i], Wait: wait}, true}, nil
		}
	}
	o.Permitted, err = s.parts.Policies.TakePermit(holder, limits)
	return o, err
}

// renewPermit has a holder keep its permit, also one of the process before.
func (s *Service) renewPermit(holder uint64, limits []policy.AtOnce) (admit.Permitted, error) {
	o, err := s.parts.Policies.RenewPermit(holder, limits)
	if err == nil && !o.OK && !s.parts.Policies.Together() && s.age() < shortest(limits) {
		return s.parts.Policies.TakePermit(holder, limits)
	}
	return o, err
}

// PermitOutcome is what became of a request.
type PermitOutcome struct {
	admit.Permitted
	Starts bool // after a denial: for Wait, the server has run too briefly to know who holds what
}

// MaxPermits is how many permits are held at once at most, of all keys and limits.
const MaxPermits = admission.MaxPermits

// enterPermit begins a request about a permit, and takes a place for it.
func (s *Service) enterPermit(c access.Caller, p permitOf) ([]policy.AtOnce, access.Rights, error) {
	may, err := s.parts.Gate.Enter(c, auth.Decide)
	if err != nil {
		return nil, may, err
	}
	if bad := request.CheckKey(p.key); bad != nil {
		return nil, may, &api.Error{Code: bad.Code, Field: "key", Message: bad.Message}
	}
	if err := may.CheckDecision([]admit.Request{{Key: p.key, Limit: p.limit}}); err != nil {
		return nil, may, err
	}
	limits, err := s.parts.Policies.Set().AtOnce(p.key, p.limit)
	if err != nil {
		return nil, may, s.undecided(may, err)
	}
	return limits, may, s.parts.Pools.Decisions.Enter(c, 1)
}

// permitAnswer has the shortest of the limits' times.
func permitAnswer(p permitOf, limits []policy.AtOnce) api.PermitAnswer {
	return api.PermitAnswer{ID: p.id(), TTLSeconds: shortest(limits).Seconds(), Unmatched: len(limits) == 0}
}

func shortest(limits []policy.AtOnce) time.Duration {
	if len(limits) == 0 {
		return unlimitedTTL
	}
	return slices.MinFunc(limits, func(a, b policy.AtOnce) int { return int(a.TTL - b.TTL) }).TTL
}

// countPermit counts an outcome under the same keys as other limits; if the engine refuses the hit, nothing else
// changes.
func (s *Service) countPermit(limit, outcome string) {
	_ = s.parts.Engine.Hit(admit.HitPrefix + limit + ":" + outcome)
}

// atOnce lists the limits of how many at once that the caller may read of.
func (s *Service) atOnce(may access.Rights) (list []api.AtOnceLimit) {
	all := s.parts.Policies.Set().Concurrencies()
	if len(all) == 0 {
		return nil
	}
	held, keys := map[string]int{}, map[string]int{}
	s.parts.Policies.Permits(func(limit, _ string, n int) {
		held[limit] += n
		keys[limit]++
	})
	for _, l := range all {
		if may.Sees(l.Name, l.Keys) {
			list = append(list, api.AtOnceLimit{Name: l.Name, Keys: l.Keys, By: l.By, Version: l.Version, Max: l.Max, TTLSeconds: l.TTL.Seconds(), Held: held[l.Name], HeldKeys: keys[l.Name]})
		}
	}
	return list
}

// permitKeys lists the keys that the caller may read of and of which most permits of a limit are held. All are free when its ttl is over, if
// no heartbeat comes.
func (s *Service) permitKeys(may access.Rights, concurrency *policy.Concurrency, n int) api.LimitKeysAnswer {
	answer := api.LimitKeysAnswer{Name: concurrency.Name, Keys: []api.LimitKey{}}
	s.parts.Policies.Permits(func(limit, key string, held int) {
		if limit == concurrency.Name && may.Holds(key) {
			answer.Keys = append(answer.Keys, api.LimitKey{
				Key: key, Used: uint64(held), Burst: uint64(concurrency.Max), Remaining: uint64(max(0, concurrency.Max-held)),
				Share: float64(held) / float64(concurrency.Max), ResetSeconds: concurrency.TTL.Seconds(),
			})
		}
	})
	slices.SortFunc(answer.Keys, func(a, b api.LimitKey) int { return cmp.Or(cmp.Compare(b.Used, a.Used), strings.Compare(a.Key, b.Key)) })
	answer.Keys = answer.Keys[:min(n, len(answer.Keys))]
	return answer
}
