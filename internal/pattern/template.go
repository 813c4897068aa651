package pattern

import (
	"fmt"
	"slices"
	"strings"
)

// A Template makes the key that is counted of what a pattern's captures took of a
// request's key: `login:{user}`. The zero Template counts the request's key itself.
type Template struct {
	parts []templatePart

	// The made key may always be the beginning of the request's key, as with `by: "api:{user}"` for `keys:
	// "api:{user}:*"`. Then it is cut and not built: place is the last capture in it and extra the bytes after that.
	cut   bool
	place int
	extra int
}

// templatePart is a capture, by its place among the wildcards, or literal text.
type templatePart struct {
	literal string
	place   int  // -1 for literal text
	any     bool // the capture takes any text
}

// ParseTemplate reads the `by` of a policy whose `keys` is p.
func ParseTemplate(text string, p *Pattern) (t Template, err error) {
	if len(text) < 1 || len(text) > MaxPatternBytes {
		return t, fmt.Errorf("%d bytes: write 1 to %d, or leave `by` out to count each key by itself", len(text), MaxPatternBytes)
	}
	for rest := text; rest != ""; {
		at := strings.IndexAny(rest, "*{}")
		if at < 0 {
			at = len(rest)
		}
		if at > 0 {
			t.parts = append(t.parts, templatePart{literal: rest[:at], place: -1})
			rest = rest[at:]
			continue
		}
		w, after, err := cutWildcard(rest)
		if err != nil {
			return t, err
		}
		if w.name == "" {
			return t, fmt.Errorf("a * has no name to be counted by: write {name*} in keys and {name} in by")
		}
		place := p.place(w.name)
		if place < 0 {
			return t, fmt.Errorf("{%s} is not a capture of keys%s; %s", w.name, p.nearest(w.name), p.names())
		}
		if w.any {
			return t, fmt.Errorf("%v: the * stands in keys alone: write {%s}", w, w.name)
		}
		t.parts = append(t.parts, templatePart{place: place, any: p.wild[place].any})
		rest = after
	}
	if t.mayBeEmpty() {
		return t, fmt.Errorf("it makes an empty key when its captures take nothing: write text before them, for example \"any:%s\"", text)
	}
	t.asCut(p)
	return t, nil
}

// asCut finds out whether the template is the beginning of p.
func (t *Template) asCut(p *Pattern) {
	place, extra := -1, 0
	for i, part := range t.parts {
		switch last := i == len(t.parts)-1; {
		case part.place >= 0 && part.place == place+1 && extra == len(p.literals[place+1]):
			place, extra = part.place, 0
		case part.place < 0 && last && strings.HasPrefix(p.literals[place+1], part.literal),
			part.place < 0 && p.literals[place+1] == part.literal:
			extra = len(part.literal)
		default:
			return
		}
	}
	if place >= 0 { // else the template makes one fixed key
		t.cut, t.place, t.extra = true, place, extra
	}
}

// Key makes the counted key of a request's key and what the captures took of it.
// Only a key that has to be built is allocated.
func (t *Template) Key(key string, took *Captures) string {
	switch {
	case len(t.parts) == 0:
		return key
	case t.cut:
		return key[:took[t.place].to+t.extra]
	case len(t.parts) == 1 && t.parts[0].place < 0:
		return t.parts[0].literal
	}
	size := 0
	for _, part := range t.parts {
		size += len(part.text(key, took))
	}
	var b strings.Builder
	b.Grow(size)
	for _, part := range t.parts {
		b.WriteString(part.text(key, took))
	}
	return b.String()
}

func (p templatePart) text(key string, took *Captures) string {
	if p.place < 0 {
		return p.literal
	}
	return key[took[p.place].from:took[p.place].to]
}

// LiteralOf returns the text before the first wildcard of a pattern or template: all keys that it matches, or makes, begin with it.
func LiteralOf(text string) string {
	if at := strings.IndexAny(text, "*{"); at >= 0 {
		return text[:at]
	}
	return text
}

// mayBeEmpty reports whether all that is counted may be nothing: no engine counts that.
func (t *Template) mayBeEmpty() bool {
	for _, part := range t.parts {
		if !part.any {
			return false
		}
	}
	return true
}

// CanMake reports whether the template could make key: a capture takes what it takes of
// request keys, whichever of them, so that a key it says no to is never counted.
//
// It follows all places where the parts so far may end: O(parts * len(key)).
func (t *Template) CanMake(key string) bool {
	ends := make([]bool, len(key)+1)
	ends[0] = true
	for _, part := range t.parts {
		ends = part.ends(key, ends)
	}
	return ends[len(key)]
}

// ends are the places where a part may end that begins at one of from.
func (p templatePart) ends(key string, from []bool) []bool {
	to := make([]bool, len(from))
	inside := false // a capture that began before
	for i, begins := range from {
		switch {
		case p.place < 0:
			if begins && strings.HasPrefix(key[i:], p.literal) {
				to[i+len(p.literal)] = true
			}
		case p.any:
			inside = inside || begins
			to[i] = inside
		default:
			inside = inside && strings.IndexByte(separators, key[i-1]) < 0
			to[i] = inside
			inside = inside || begins
		}
	}
	return to
}

// Index finds the policies that may be for a key by the literal text that their patterns begin with. So a thousand
// policies with different beginnings cost a request one binary search.
//
// The prefixes are sorted. The prefixes of a key are a chain, each a prefix of the
// next. The longest is the key's place in the order or an ancestor of that place,
// because any text between a prefix of the key and the key begins with the prefix.
//
// Each entry lists the policies of its whole chain, ready in the order of application:
// at most MaxPolicies each, 4 MB in the worst of all files.
type Index struct {
	prefixes []string
	parents  []int32   // the longest other prefix that this one begins with; -1: none
	policies [][]int32 // that may be for a key that begins with the prefix
}

func NewIndex(patterns []Pattern) Index {
	var x Index
	for i := range patterns {
		x.prefixes = append(x.prefixes, patterns[i].Prefix())
	}
	slices.Sort(x.prefixes)
	x.prefixes = slices.Compact(x.prefixes)
	x.parents = make([]int32, len(x.prefixes))
	x.policies = make([][]int32, len(x.prefixes))
	for i := range patterns {
		at, _ := slices.BinarySearch(x.prefixes, patterns[i].Prefix())
		x.policies[at] = append(x.policies[at], int32(i))
	}
	for at, prefix := range x.prefixes {
		parent := x.longest(int32(at)-1, prefix)
		x.parents[at] = parent
		if parent >= 0 { // it comes earlier, so its list is whole
			x.policies[at] = append(x.policies[at], x.policies[parent]...)
			slices.Sort(x.policies[at])
		}
	}
	return x
}

// Candidates lists, in order of application, the policies that may be for key.
//
// Cost: O(log(policies) + the longest chain of prefixes); no allocation.
func (x *Index) Candidates(key string) []int32 {
	at, found := slices.BinarySearch(x.prefixes, key)
	if !found {
		at--
	}
	if at := x.longest(int32(at), key); at >= 0 {
		return x.policies[at]
	}
	return nil
}

// longest is the entry of the chain from at on that key begins with, or -1.
func (x *Index) longest(at int32, key string) int32 {
	for at >= 0 && !strings.HasPrefix(key, x.prefixes[at]) {
		at = x.parents[at]
	}
	return at
}
