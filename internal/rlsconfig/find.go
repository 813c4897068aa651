package rlsconfig

import "strings"

// level is descriptors side by side: those of a domain, or within another one.
type level struct{ keys map[string]*choices }

// choices are the descriptors of one key, side by side.
type choices struct {
	exact map[string]*node
	wild  []*node // with a * in their value, in the order of the file
	any   *node   // without a value
}

// node is one descriptor.
type node struct {
	step   Step
	parts  []string // of a value with *, the texts between
	limit  *Limit
	within *level // nil: nothing is
}

// Entry is one pair of a request's descriptor.
type Entry struct{ Key, Value string }

// Has tells whether there is a domain.
func (c *Config) Has(domain string) bool { return c.domains[domain] != nil }

// Find is the limit of a request's descriptor, or nil. The most specific one is found: at each level the
// descriptor with the entry's value, else the first whose * fits, else the one without a value; and a limit
// is for descriptors of its own depth alone. Values that count together are replaced in entries.
//
// Cost: O(entries + descriptors with * of one key), without an allocation.
func (c *Config) Find(domain string, entries []Entry) *Limit {
	at := c.domains[domain]
	if at == nil || len(entries) == 0 {
		return nil
	}
	var found *node
	for _, e := range entries {
		if at == nil {
			return nil
		}
		if found = at.find(e); found == nil {
			return nil
		}
		at = found.within
	}
	if found.limit == nil {
		return nil
	}
	for i, step := range found.limit.Path {
		if step.Share {
			entries[i].Value = step.Value
		}
	}
	return found.limit
}

func (l *level) find(e Entry) *node {
	of := l.keys[e.Key]
	if of == nil {
		return nil
	}
	if n := of.exact[e.Value]; n != nil {
		return n
	}
	for _, n := range of.wild {
		if fits(n.parts, e.Value) {
			return n
		}
	}
	return of.any
}

// fits tells whether a value is parts with any text between, also none. There are at least two parts.
//
// Each part in the middle is taken where it first stands: if the rest does not fit behind that, it does
// not behind a later place either, which leaves less room. So it is O(len(value) * parts).
func fits(parts []string, value string) bool {
	first, last := parts[0], parts[len(parts)-1]
	if len(value) < len(first)+len(last) || !strings.HasPrefix(value, first) || !strings.HasSuffix(value, last) {
		return false
	}
	rest := value[len(first) : len(value)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return true
}
