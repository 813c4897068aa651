package policy

import (
	"fmt"
	"slices"
	"strings"
)

// addressNames are what captures of addresses are called, and how keys with one begin.
var addressNames = []string{"ip", "ipv6", "addr", "address", "host", "client_ip", "remote_addr", "remote_ip"}

// Warnings is what is odd in a file and no fault of it, in order of application; file is
// its name for the messages.
func (s *Set) Warnings(file string) (all []Fault) {
	for i := range s.policies {
		p := &s.policies[i]
		if name := s.patterns[i].cutsAddress(); name != "" {
			all = append(all, Fault{file, p.Line, "keys", fmt.Sprintf(
				"%q: {%s} ends at a `:`, so that keys with an IPv6 address have no limit here, or are counted by a part of it: write {%s*}", short(p.Keys), name, name)})
		}
		if before := s.covered(i); before != "" {
			all = append(all, Fault{file, p.Line, "last", fmt.Sprintf(
				"%s comes before %s, is for all its keys and has `last: true`: %s is never asked but by name; give it a lower order, or remove it", before, p.Name, p.Name)})
		}
	}
	return all
}

// cutsAddress is the name of a capture that seems to be of an address and can't hold one
// of IPv6, or "".
func (p *pattern) cutsAddress() string {
	for i, w := range p.wild {
		word, _ := strings.CutSuffix(p.literals[i], ":")
		word = word[strings.LastIndexAny(word, separators)+1:]
		if !w.any && (slices.Contains(addressNames, w.name) || slices.Contains(addressNames, word)) {
			return w.name
		}
	}
	return ""
}

// covered is the name of a policy before the one at a place that leaves it no keys, or "".
func (s *Set) covered(place int) string {
	later := &s.patterns[place]
	for i := range s.policies[:place] {
		p := &s.patterns[i]
		allOf := len(p.wild) == 1 && p.wild[0].any && p.literals[1] == "" // PREFIX*
		if s.policies[i].Last && (s.policies[i].Keys == s.policies[place].Keys || allOf && strings.HasPrefix(later.prefix(), p.prefix())) {
			return s.policies[i].Name
		}
	}
	return ""
}
