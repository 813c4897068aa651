package policy

import (
	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/policy/pattern"
)

// Match is one policy that is for a key.
type Match struct {
	Policy Policy
	Key    string     // that is counted
	Limit  weir.Limit // of that key, which may be overridden
}

// Parts is what each region has of Limit, nil if it is not over regions.
func (m *Match) Parts() []Part {
	if m.Policy.Parts == nil {
		return nil
	}
	return PartsOf(m.Limit.Burst, m.Policy.Parts)
}

// Match tells which policies are for a request's key, in order of application. It is for
// people: Live asks the engine, and makes no lists.
func (s *Set) Match(key string) (matches []Match) {
	for _, at := range s.index.Candidates(key) {
		var took pattern.Captures
		if len(key) > weir.MaxKeyBytes || !s.patterns[at].Match(key, &took) {
			continue
		}
		p := s.policies[at]
		m := Match{p, s.templates[at].Key(key, &took), p.Limit}
		for _, o := range p.Overrides {
			if o.Key == m.Key {
				m.Limit = o.Limit
			}
		}
		if matches = append(matches, m); p.Last {
			break
		}
	}
	return matches
}

// Near is the first policy that would be for a key, which it is not, if its `{name}`
// took any text as `{name*}` does. Such a key has a : or / more than whoever wrote the
// policy thought of, and no limit.
func (s *Set) Near(key string) (p Policy, ok bool) {
	for _, at := range s.index.Candidates(key) {
		loose := s.patterns[at].Loose()
		if !s.patterns[at].Fits(key) && loose.Fits(key) {
			return s.policies[at], true
		}
	}
	return p, false
}
