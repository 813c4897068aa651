package service

import (
	"strings"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/service/accounts"
)

// access is what one request may do. The zero access is for nothing.
type access struct {
	*auth.Permission
	role auth.Role
	of   *accounts.Account // nil: on a server that is not locked
}

// enter begins a request: it fails when the caller has not the role for any key, or has
// reached its ceiling of requests. Whether it is for the key is asked before anything is
// looked up, so that an answer, and the time it takes, says nothing of a key that it is not
// for.
func (s *Service) enter(c Caller, role auth.Role) (access, error) {
	is, err := s.identity(c)
	switch {
	case err != nil:
		return access{}, err
	case is == nil:
		return access{Permission: auth.Everything, role: role}, nil
	}
	a := access{is.Permission(role), role, s.accounts.Of(s.backend.Tokens.Live().Set(), is)}
	a.of.Requested()
	if a.Permission == nil {
		return access{}, a.refuse("", "identity "+is.Name+" has no role "+role.String())
	}
	return a, a.of.TakeRequest()
}

// enterAll is enter for what concerns all keys and limits at once.
func (s *Service) enterAll(c Caller, role auth.Role) (access, error) {
	a, err := s.enter(c, role)
	if err == nil && !a.All() {
		return access{}, a.refuse("", "this concerns all keys and limits, and role "+role.String()+" of this identity is for some of them")
	}
	return a, err
}

// MayReadFigures fails unless the caller may know of the server as a whole: its metrics.
func (s *Service) MayReadFigures(c Caller) error {
	_, err := s.enterAll(c, auth.Read)
	return err
}

// ReadsAll tells whether the caller may read all keys. It is not counted as a request: a view
// leaves out what it may not show.
func (s *Service) ReadsAll(c Caller) bool {
	is, err := s.identity(c)
	return err == nil && (is == nil || is.Permission(auth.Read) != nil && is.Permission(auth.Read).All())
}

// refuse is the error of what the role is not for.
func (a access) refuse(field, message string) error {
	if a.of != nil {
		a.of.Forbid()
	}
	return &Error{Code: api.CodeForbidden, Field: field, Message: message}
}

// holds tells whether the role is for a key, or for all keys that begin with it. Keys under which
// limits count may also be read by an identity that has the limit.
func (a access) holds(key string) bool {
	if !a.Key(key) {
		return false
	}
	name, is := strings.CutPrefix(key, policy.HitPrefix)
	if !is || a.AllLimits() {
		return true
	}
	name, _, whole := strings.Cut(name, ":") // names of limits have none
	return whole && a.Limit(name)
}

// checkKey fails unless the role is for a key.
func (a access) checkKey(key string) error {
	if a.holds(key) {
		return nil
	}
	return a.refuse("key", "role "+a.role.String()+" of this identity is not for the key "+Clip(key))
}

// within is what of the keys with a prefix the role is for; it fails if that is none.
func (a access) within(prefix string) (parts []string, err error) {
	parts = a.Within(prefix)
	if strings.HasPrefix(prefix, policy.HitPrefix) && !a.AllLimits() {
		parts = nil
	}
	if len(parts) == 0 {
		return nil, a.refuse("prefix", "role "+a.role.String()+" of this identity is for no key that begins with "+Clip(prefix))
	}
	return parts, nil
}

// sees tells whether a policy, and how it decided, is for the role: all keys that it is
// for are.
func (a access) sees(p *policy.Policy) bool {
	literal, _, _ := strings.Cut(p.Keys, "*")
	literal, _, _ = strings.Cut(literal, "{")
	return a.Limit(p.Name) && a.Key(literal)
}

// checkDecision fails unless the role is for all that a decision asks. Who has some limits
// only must say which it asks.
func (a access) checkDecision(requests []policy.Request) error {
	if a.All() {
		return nil
	}
	for i := range requests {
		r := &requests[i]
		if err := a.checkKey(r.Key); err != nil {
			return err
		}
		switch {
		case a.AllLimits():
		case r.Inline != nil:
			return a.refuse("limit", "role decide of this identity is for policies by name, not for limits that a request brings along")
		case r.Limit == "":
			return a.refuse("limit", "role decide of this identity is for some limits only: name the one that is asked")
		case !a.Limit(r.Limit):
			return a.refuse("limit", "role decide of this identity is not for the limit "+Clip(r.Limit))
		}
	}
	return nil
}

// PermitDecision fails unless the caller may ask limits of a key. It is for what a door answers without asking any.
func (s *Service) PermitDecision(c Caller, key string) error {
	is, err := s.identity(c)
	if err != nil || is == nil {
		return err
	}
	may := access{is.Permission(auth.Decide), auth.Decide, s.accounts.Of(s.backend.Tokens.Live().Set(), is)}
	if may.Permission == nil {
		return may.refuse("", "identity "+is.Name+" has no role decide")
	}
	return may.checkKey(key)
}

// PermitCounters fails unless the caller may use counters that a door keeps itself, under keys. They are what
// clients build limits from: role decide is for them, unless it is for some limits only.
func (s *Service) PermitCounters(c Caller, keys [][]byte) error {
	if !s.Locked() {
		return nil
	}
	may, err := s.enter(c, auth.Decide)
	if err != nil {
		return err
	}
	if !may.AllLimits() {
		return may.refuse("", "role decide of this identity is for policies by name, not for counters")
	}
	for _, key := range keys {
		if err := may.checkKey(string(key)); err != nil {
			return err
		}
	}
	return nil
}
