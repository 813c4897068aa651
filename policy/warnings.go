package policy

import (
	"fmt"
	"strings"

	"github.com/weir-counter/weir/internal/units"
)

// Warnings is what is odd in a file and no fault of it, in order of application; file is
// its name for the messages.
func (s *Set) Warnings(file string) (all []Fault) {
	for i := range s.policies {
		p := &s.policies[i]
		if name := s.patterns[i].CutsAddress(); name != "" {
			all = append(all, Fault{file, p.Line, "keys", fmt.Sprintf(
				"%q: {%s} ends at a `:`, so that keys with an IPv6 address have no limit here, or are counted by a part of it: write {%s*}", units.Excerpt(p.Keys), name, name)})
		}
		if before := s.covered(i); before != "" {
			all = append(all, Fault{file, p.Line, "last", fmt.Sprintf(
				"%s comes before %s, is for all its keys and has `last: true`: %s is never asked but by name; give it a lower order, or remove it", before, p.Name, p.Name)})
		}
	}
	return all
}

// covered is the name of a policy before the one at a place that leaves it no keys, or "".
func (s *Set) covered(place int) string {
	later := &s.patterns[place]
	for i := range s.policies[:place] {
		p := &s.patterns[i]
		if s.policies[i].Last && (s.policies[i].Keys == s.policies[place].Keys || p.TakesAll() && strings.HasPrefix(later.Prefix(), p.Prefix())) {
			return s.policies[i].Name
		}
	}
	return ""
}
