// Package pattern is which keys a policy is for, and which key is counted of them: patterns, templates, and an index of
// many patterns. Pure.
package pattern

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/units"
)

const (
	// MaxPatternBytes is the longest `keys` or `by`, in bytes.
	MaxPatternBytes = 256

	// MaxWildcards is how many `*`, `{name}` and `{name*}` one `keys` may have.
	MaxWildcards = 8

	// MaxCaptureBytes is the longest name between { and }.
	MaxCaptureBytes = 32
)

// separators end what a `{name}` takes: they stand between the parts of a key.
const separators = ":/"

// A Pattern says which keys a policy is for. It has literal text, `*` for any text (also none), `{name}` for one or
// more bytes that are not separators, and `{name*}` for any text under a name. Literal text stands between two
// wildcards, so that it is clear which takes what: each as little as it can, from the left.
//
// Invariant: literals[0] wild[0] literals[1] ... wild[n-1] literals[n] is the
// text; only the first and the last literal may be empty.
type Pattern struct {
	literals []string
	wild     []wildcard
}

// wildcard stands for text of a key.
type wildcard struct {
	name string // of a capture; "" for a `*`
	any  bool   // `*` and `{name*}`: any text; else one or more bytes, no separators
}

// Captures has what each wildcard of a pattern took of a key, by place.
type Captures [MaxWildcards]struct{ from, to int }

// Parse reads the `keys` of a policy.
func Parse(text string) (p Pattern, err error) {
	if len(text) < 1 || len(text) > MaxPatternBytes {
		return p, fmt.Errorf("%d bytes: write 1 to %d, for example \"login:*\"", len(text), MaxPatternBytes)
	}
	rest := text
	for {
		at := strings.IndexAny(rest, "*{}")
		if at < 0 {
			p.literals = append(p.literals, rest)
			break
		}
		w, after, err := cutWildcard(rest[at:])
		if err != nil {
			return p, err
		}
		if at == 0 && len(p.wild) > 0 {
			return p, fmt.Errorf("nothing stands between %v and %v: write text between them, or one of them alone", p.wild[len(p.wild)-1], w)
		}
		if w.name != "" && p.place(w.name) >= 0 {
			return p, fmt.Errorf("{%s} stands twice: give each capture its own name", w.name)
		}
		p.literals = append(p.literals, rest[:at])
		p.wild = append(p.wild, w)
		rest = after
	}
	if len(p.wild) > MaxWildcards {
		return p, fmt.Errorf("%d wildcards: at most %d", len(p.wild), MaxWildcards)
	}
	return p, nil
}

// cutWildcard reads the wildcard that s begins with.
func cutWildcard(s string) (w wildcard, rest string, err error) {
	switch s[0] {
	case '*':
		return wildcard{any: true}, s[1:], nil
	case '}':
		return w, "", fmt.Errorf("a } without a { before it")
	}
	name, rest, closed := strings.Cut(s[1:], "}")
	if !closed {
		return w, "", fmt.Errorf("a { without a } after it")
	}
	w.name, w.any = strings.CutSuffix(name, "*")
	if !isCaptureName(w.name) {
		return w, "", fmt.Errorf("{%.40s}: between { and } stands a name of at most %d letters, digits or _, for example {user}, or {user*} for any text", name, MaxCaptureBytes)
	}
	return w, rest, nil
}

func isCaptureName(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '_' && !('a' <= c|0x20 && c|0x20 <= 'z') && !('0' <= c && c <= '9') {
			return false
		}
	}
	return s != "" && len(s) <= MaxCaptureBytes
}

func (w wildcard) String() string {
	switch {
	case w.name == "":
		return "*"
	case w.any:
		return "{" + w.name + "*}"
	}
	return "{" + w.name + "}"
}

// Prefix is the literal text that every key of p begins with.
func (p *Pattern) Prefix() string { return p.literals[0] }

// place is where the capture of a name stands among the wildcards, or -1.
func (p *Pattern) place(name string) int {
	for i, have := range p.wild {
		if have.name == name {
			return i
		}
	}
	return -1
}

// names lists the captures for an error message.
func (p *Pattern) names() string {
	var names []string
	for _, w := range p.wild {
		if w.name != "" {
			names = append(names, w.String())
		}
	}
	if names == nil {
		return "keys has no captures"
	}
	return "keys has " + strings.Join(names, ", ")
}

// nearest is ", did you mean X?" for a capture that there is not.
func (p *Pattern) nearest(name string) string {
	var names []string
	for _, w := range p.wild {
		names = append(names, w.name)
	}
	return units.DidYouMean(name, names)
}

// Match reports whether key fits, and fills in what the wildcards matched. A key is at most engine.MaxKeyBytes long.
//
// Cost: O(wildcards * len(key)); no allocation.
func (p *Pattern) Match(key string, took *Captures) bool {
	last := len(p.wild)
	first, end := p.literals[0], p.literals[last]
	if last == 0 {
		return key == first
	}
	if len(key) < len(first)+len(end) || !strings.HasPrefix(key, first) || !strings.HasSuffix(key, end) {
		return false
	}
	m := matcher{Pattern: p, key: key[:len(key)-len(end)], took: took}
	return m.from(0, len(first))
}

// matcher is one walk over a key.
//
// It tries the places of each literal from the left, and goes back when the rest does not fit: that alone could take
// exponential time. But what does not fit behind a wildcard that begins at i does not fit behind one that begins later
// either: the later one reaches only places that the earlier one tried. They end at the end of the key for `*` and
// `{name*}`, at the next separator for `{name}`. So each wildcard keeps the range of beginnings that failed, walks the
// key once, and no regular expression engine is needed.
type matcher struct {
	*Pattern
	key    string // without the pattern's last literal
	took   *Captures
	failed [MaxWildcards]struct{ from, to int } // beginnings, half open
}

// from reports whether the wildcards from place on, with the literals between, fit the key from i to its end.
func (m *matcher) from(place, i int) bool {
	if f := m.failed[place]; f.from <= i && i < f.to {
		return false
	}
	reach, least := len(m.key), i // where the wildcard may end
	if !m.wild[place].any {
		least++
		if sep := strings.IndexAny(m.key[i:], separators); sep >= 0 {
			reach = i + sep
		}
	}
	if at, ok := m.ending(place, least, reach); ok {
		m.took[place].from, m.took[place].to = i, at
		return true
	}
	// Beginnings up to reach: a `{name}` that begins at its separator takes nothing,
	// and what takes any text may begin at the very end.
	m.failed[place].from, m.failed[place].to = i, reach+1
	return false
}

// ending finds where the wildcard at place ends, from least to reach, so that what comes after it fits.
func (m *matcher) ending(place, least, reach int) (at int, ok bool) {
	if place == len(m.wild)-1 {
		return len(m.key), least <= len(m.key) && reach == len(m.key)
	}
	literal := m.literals[place+1]
	for at = least; at <= reach; at++ {
		next := strings.Index(m.key[at:min(len(m.key), reach+len(literal))], literal)
		if next < 0 {
			break
		}
		at += next
		if m.from(place+1, at+len(literal)) {
			return at, true
		}
	}
	return 0, false
}

// Fits reports whether key fits.
func (p *Pattern) Fits(key string) bool {
	var took Captures
	return len(key) <= engine.MaxKeyBytes && p.Match(key, &took)
}

// addressNames are what captures of addresses are called, and how keys with one begin.
var addressNames = []string{"ip", "ipv6", "addr", "address", "host", "client_ip", "remote_addr", "remote_ip"}

// CutsAddress is the name of a capture that seems to be of an address and can't hold one of IPv6, or "".
func (p *Pattern) CutsAddress() string {
	for i, w := range p.wild {
		if !w.any && p.isAddress(i) {
			return w.name
		}
	}
	return ""
}

// TakesAll reports whether p is for all keys that begin with its Prefix.
func (p *Pattern) TakesAll() bool {
	return len(p.wild) == 1 && p.wild[0].any && p.literals[1] == "" // PREFIX*
}

// Loose is p whose `{name}` take any text, as `{name*}` do.
func (p *Pattern) Loose() Pattern {
	loose := Pattern{p.literals, slices.Clone(p.wild)}
	for i := range loose.wild {
		loose.wild[i].any = true
	}
	return loose
}
