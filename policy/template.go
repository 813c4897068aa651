package policy

import (
	"fmt"
	"strings"
)

// A template makes the key that is counted of what a pattern's captures took of a
// request's key: `login:{user}`. The zero template counts the request's key itself.
type template struct {
	parts []templatePart

	// When the made key is always the beginning of the request's key, which
	// `by: "api:{user}"` for `keys: "api:{user}:*"` is, it is cut and not built:
	// place is the last capture in it and extra the bytes after that.
	cut   bool
	place int
	extra int
}

// templatePart is a capture, by its place among the wildcards, or literal text.
type templatePart struct {
	literal string
	place   int // -1 for literal text
}

// parseTemplate reads the `by` of a policy whose `keys` is p.
func parseTemplate(text string, p *pattern) (t template, err error) {
	if len(text) < 1 || len(text) > MaxPatternBytes {
		return t, fmt.Errorf("%d bytes: write 1 to %d, or leave `by` out to count each key by itself", len(text), MaxPatternBytes)
	}
	for rest := text; rest != ""; {
		at := strings.IndexAny(rest, "*{}")
		if at < 0 {
			at = len(rest)
		}
		if at > 0 {
			t.parts = append(t.parts, templatePart{rest[:at], -1})
			rest = rest[at:]
			continue
		}
		name, after, err := cutWildcard(rest)
		if err != nil {
			return t, err
		}
		if name == "" {
			return t, fmt.Errorf("a * has no name to be counted by: write {name} in keys and in by")
		}
		place := p.place(name)
		if place < 0 {
			return t, fmt.Errorf("{%s} is not a capture of keys%s; %s", name, didYouMean(name, p.wild), p.names())
		}
		t.parts = append(t.parts, templatePart{"", place})
		rest = after
	}
	t.asCut(p)
	return t, nil
}

// asCut finds out whether the template is the beginning of p.
func (t *template) asCut(p *pattern) {
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
	if place >= 0 { // else it is one fixed key
		t.cut, t.place, t.extra = true, place, extra
	}
}

// key makes the counted key of a request's key and what the captures took of it.
// Only a key that has to be built is allocated.
func (t *template) key(key string, took *captures) string {
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

func (p templatePart) text(key string, took *captures) string {
	if p.place < 0 {
		return p.literal
	}
	return key[took[p.place].from:took[p.place].to]
}

// canMake tells whether the template could make key: by its first and last literal,
// which find the usual slip, a prefix that was left out.
func (t *template) canMake(key string) bool {
	if len(t.parts) == 1 && t.parts[0].place < 0 {
		return key == t.parts[0].literal
	}
	least := 0 // each capture takes at least one byte
	for _, part := range t.parts {
		least += max(1, len(part.literal))
	}
	first, last := t.parts[0].literal, t.parts[len(t.parts)-1].literal
	return len(key) >= least && strings.HasPrefix(key, first) && strings.HasSuffix(key, last)
}
