package auth

import (
	"fmt"
	"slices"
	"strings"
)

// Identity is who calls. It does not change.
type Identity struct {
	Name     string
	Ceilings Ceilings

	permissions [roles]*Permission
}

// Ceilings bound what an identity may use of one node. 0 is no bound.
type Ceilings struct {
	Requests uint64 // a second
	Hits     uint64 // a second
	NewKeys  uint64 // a minute
}

// Permission is for which keys and limits an identity has a role. It does not change.
type Permission struct {
	Role   Role
	Keys   []string // prefixes, sorted, none of them within another; empty: all keys
	Limits []string // names, sorted; empty: all limits
}

// Everything is a permission without bounds.
var Everything = &Permission{}

// Permission is what the identity may do in a role; nil: nothing. A nil Identity has none.
func (i *Identity) Permission(r Role) *Permission {
	if i == nil || r >= roles {
		return nil
	}
	return i.permissions[r]
}

// Scope is a text of what the identity may do: two that may do the same have the same one, and it changes when that does.
func (i *Identity) Scope() string {
	var b strings.Builder
	for role, g := range i.permissions {
		if g != nil {
			fmt.Fprintf(&b, "%v %q %q;", Role(role), g.Keys, g.Limits)
		}
	}
	return b.String()
}

// May tells whether the identity has a role for a key.
func (i *Identity) May(r Role, key string) bool { return i.Permission(r).Key(key) }

// MayLimit tells whether the identity has a role for a limit by its name.
func (i *Identity) MayLimit(r Role, name string) bool { return i.Permission(r).Limit(name) }

// AllKeys tells whether the permission is for every key.
func (g *Permission) AllKeys() bool { return g != nil && len(g.Keys) == 0 }

// AllLimits tells whether the permission is for every limit.
func (g *Permission) AllLimits() bool { return g != nil && len(g.Limits) == 0 }

// All tells whether the permission is for every key and limit.
func (g *Permission) All() bool { return g.AllKeys() && g.AllLimits() }

// Key tells whether the permission is for a key, or for all keys that begin with it.
func (g *Permission) Key(key string) bool {
	if g == nil {
		return false
	}
	for _, prefix := range g.Keys {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return len(g.Keys) == 0
}

// Limit tells whether the permission is for a limit.
func (g *Permission) Limit(name string) bool {
	return g != nil && (len(g.Limits) == 0 || slices.Contains(g.Limits, name))
}

// Within is the part of all keys with a prefix that the permission is for: prefixes, sorted, none
// of them within another. Empty: no key.
func (g *Permission) Within(prefix string) []string {
	if g.Key(prefix) {
		return []string{prefix}
	}
	if g == nil {
		return nil
	}
	var parts []string
	for _, permitted := range g.Keys {
		if strings.HasPrefix(permitted, prefix) {
			parts = append(parts, permitted)
		}
	}
	return parts
}

// disjoint sorts prefixes and drops those that lie within another.
func disjoint(prefixes []string) []string {
	sorted := slices.Sorted(slices.Values(prefixes))
	kept := sorted[:0]
	for _, prefix := range sorted {
		if len(kept) == 0 || !strings.HasPrefix(prefix, kept[len(kept)-1]) {
			kept = append(kept, prefix)
		}
	}
	return kept
}
