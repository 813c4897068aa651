// Package rights is what one request may do: the permission that its caller's role gives, for which keys and limits.
//
// Invariant: whether a request is for a key is asked before anything is looked up, so that an answer, and the time it takes, says nothing of a
// key that it is not for.
package rights

import (
	"strings"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/service/accounts"
	"github.com/weir-counter/weir/service/failure"
)

// Rights are what one request may do. The zero Rights are for nothing.
type Rights struct {
	*auth.Permission
	Role    auth.Role
	Account *accounts.Account // nil: on a server that is not locked
}

// Refuse is the error of what the role is not for.
func (a Rights) Refuse(field, message string) error {
	if a.Account != nil {
		a.Account.Forbid()
	}
	return &failure.Error{Code: api.CodeForbidden, Field: field, Message: message}
}

// Holds tells whether the role is for a key, or for all keys that begin with it. Keys under which
// limits count may also be read by an identity that has the limit.
func (a Rights) Holds(key string) bool {
	if !a.Key(key) {
		return false
	}
	name, is := strings.CutPrefix(key, admit.HitPrefix)
	if !is || a.AllLimits() {
		return true
	}
	name, _, whole := strings.Cut(name, ":") // names of limits have none
	return whole && a.Limit(name)
}

// CheckKey fails unless the role is for a key.
func (a Rights) CheckKey(key string) error {
	if a.Holds(key) {
		return nil
	}
	return a.Refuse("key", "role "+a.Role.String()+" of this identity is not for the key "+failure.Clip(key))
}

// PartsOf is what of the keys with a prefix the role is for; it fails if that is none.
func (a Rights) PartsOf(prefix string) (parts []string, err error) {
	parts = a.Within(prefix)
	if strings.HasPrefix(prefix, admit.HitPrefix) && !a.AllLimits() {
		parts = nil
	}
	if len(parts) == 0 {
		return nil, a.Refuse("prefix", "role "+a.Role.String()+" of this identity is for no key that begins with "+failure.Clip(prefix))
	}
	return parts, nil
}

// Sees tells whether a policy, and how it decided, is for the role: all keys that it is
// for are.
func (a Rights) Sees(p *policy.Policy) bool {
	literal, _, _ := strings.Cut(p.Keys, "*")
	literal, _, _ = strings.Cut(literal, "{")
	return a.Limit(p.Name) && a.Key(literal)
}

// CheckDecision fails unless the role is for all that a decision asks. Who has some limits
// only must say which it asks.
func (a Rights) CheckDecision(requests []admit.Request) error {
	if a.All() {
		return nil
	}
	for i := range requests {
		r := &requests[i]
		if err := a.CheckKey(r.Key); err != nil {
			return err
		}
		switch {
		case a.AllLimits():
		case r.Inline != nil:
			return a.Refuse("limit", "role decide of this identity is for policies by name, not for limits that a request brings along")
		case r.Limit == "":
			return a.Refuse("limit", "role decide of this identity is for some limits only: name the one that is asked")
		case !a.Limit(r.Limit):
			return a.Refuse("limit", "role decide of this identity is not for the limit "+failure.Clip(r.Limit))
		}
	}
	return nil
}
