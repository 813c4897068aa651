package policy

import (
	"slices"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/filewatch"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/policy/pattern"
)

// Set is the policies of one file, ready to be asked. It does not change.
type Set struct {
	policies  []Policy // in order of application
	patterns  []pattern.Pattern
	templates []pattern.Template
	index     pattern.Index
	names     map[string]int
	atOnce    concurrencies
	content   filewatch.Hash // of the file
}

// MaxPolicies is how many policies a file may have.
const MaxPolicies = 2000

// Policies lists the policies in order of application. The list is the caller's, what
// is in it is not to be changed.
func (s *Set) Policies() []Policy { return slices.Clone(s.policies) }

// newSet sorts the policies and makes them ready.
func newSet(parsed []parsedPolicy, content filewatch.Hash) *Set {
	slices.SortStableFunc(parsed, func(a, b parsedPolicy) int {
		switch {
		case a.Order < b.Order:
			return -1
		case a.Order > b.Order:
			return 1
		}
		return 0
	})
	s := &Set{names: make(map[string]int, len(parsed)), content: content}
	for i, p := range parsed {
		s.policies = append(s.policies, p.Policy)
		s.patterns = append(s.patterns, p.pattern)
		s.templates = append(s.templates, p.template)
		s.names[p.Name] = i
	}
	s.index = pattern.NewIndex(s.patterns)
	return s
}

// Len is how many policies there are, without those with max. Their places, from 0, are in order of application.
func (s *Set) Len() int { return len(s.policies) }

// At is the policy at a place; it is not to be changed.
func (s *Set) At(place int) *Policy { return &s.policies[place] }

// Place is that of the policy of a name; false: there is none.
func (s *Set) Place(name string) (place int, ok bool) {
	place, ok = s.names[name]
	return place, ok
}

// Candidates lists the places of the policies that may be for a key, in order of application: CountedKey says of each whether it is. The
// list is not to be changed.
func (s *Set) Candidates(key string) []int32 { return s.index.Candidates(key) }

// CountedKey is the key that the policy at a place counts for a request's key; false: the policy is not for it.
func (s *Set) CountedKey(place int, key string) (counted string, ok bool) {
	var took pattern.Captures
	if !s.patterns[place].Match(key, &took) {
		return "", false
	}
	return s.templates[place].Key(key, &took), true
}

// Content is the hash of the file that the Set was read from; that of another Set is zero.
func (s *Set) Content() filewatch.Hash { return s.content }

// Counts fails for a key that the policy of a name, if it is one, never counts.
func (s *Set) Counts(name, key string) error {
	at, ok := s.names[name]
	if !ok {
		return nil
	}
	switch p := &s.policies[at]; {
	case p.By == "" && !s.patterns[at].Fits(key):
		return Failure(weir.CodeInvalidKey, "key", "limit %s never counts key %q: its keys are %q", name, units.Excerpt(key), p.Keys)
	case p.By != "" && !s.templates[at].CanMake(key):
		return Failure(weir.CodeInvalidKey, "key", "limit %s never counts key %q: it counts what `by: %q` makes of its keys, %q; write the key as it is counted", name, units.Excerpt(key), p.By, p.Keys)
	}
	return nil
}
