package envoy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/pattern"
	"github.com/weir-counter/weir/internal/units"
	weirlimit "github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

// Pattern is the keys that the limit is for, as policies have it, and what they are counted by, "" for the key itself. It
// is for people to read: a policy takes not all of them.
func (l *ConfigLimit) Pattern() (keys, by string) {
	keys, by, _ = patternOf(l.Domain, l.Path)
	return keys, by
}

// Policies is a Config as a policy file of Weir, for keys as Key makes them, and notes of what is
// different with it, a line each. The error is of a Config that no policy file has room for.
//
// A descriptor has one limit here, and all policies that fit there: so each policy is the last that is looked at, and
// the most specific ones come first. A descriptor that has no limit, where one beside it that is less
// specific has, becomes a policy that denies nothing.
func (c *LimitConfig) Policies() (file []byte, notes []string, err error) {
	w := &policyWriter{seen: map[string]bool{}}
	w.text.WriteString("# Made from limits of envoyproxy/ratelimit by 'weir limits import'.\nlimits:\n")
	for _, domain := range slices.Sorted(maps.Keys(c.domains)) {
		w.domain = domain
		w.level(c.domains[domain], nil)
	}
	if w.count == 0 {
		w.text.Reset()
		w.text.WriteString("limits: []\n")
	}
	if w.count > policy.MaxPolicies {
		return nil, nil, fmt.Errorf("%d policies would come of it, and a file has at most %d: keep the limits as they are, with --rls-config", w.count, policy.MaxPolicies)
	}
	if len(c.limits) > 0 {
		w.note("", "a period is any interval of its length (algorithm window); envoyproxy/ratelimit counts by the clock's minutes and hours (algorithm fixed)")
		w.note("", "a descriptor whose entry has an empty value has no limit: {v1} takes one byte or more")
	}
	if _, err := policy.Parse("import", []byte(w.text.String())); err != nil {
		return nil, nil, fmt.Errorf("the policies that were made are wrong: %w", err)
	}
	return []byte(w.text.String()), w.notes, nil
}

// policyWriter writes the policies of one Config.
type policyWriter struct {
	text   strings.Builder
	domain string
	count  int
	exempt int
	notes  []string
	seen   map[string]bool
}

// note is told once; of a place if there is one.
func (w *policyWriter) note(at, text string) {
	if at != "" {
		text = at + ": " + text
	}
	if !w.seen[text] {
		w.seen[text] = true
		w.notes = append(w.notes, text)
	}
}

func (w *policyWriter) level(l *level, above []ConfigStep) {
	for _, key := range slices.Sorted(maps.Keys(l.keys)) {
		of := l.keys[key]
		var nodes []*node
		for _, value := range slices.Sorted(maps.Keys(of.exact)) {
			nodes = append(nodes, of.exact[value])
		}
		nodes = append(nodes, of.wild...)
		if of.any != nil {
			nodes = append(nodes, of.any)
		}
		for i, n := range nodes {
			w.node(n, append(slices.Clone(above), n.step), i < len(nodes)-1)
		}
	}
}

// node writes a descriptor and those within; general says that one beside it is less specific.
func (w *policyWriter) node(n *node, path []ConfigStep, general bool) {
	if n.limit != nil {
		w.limit(n.limit)
	}
	if n.within != nil {
		w.level(n.within, path)
	}
	if !general {
		return
	}
	keys, _, ok := patternOf(w.domain, path)
	if !ok {
		return
	}
	if n.limit == nil {
		w.stop(keys, placeText(w.domain, path)+" has no limit")
	}
	w.stop(keys+":*", "nor what begins with it")
}

// stop writes a policy that denies nothing, and keeps later ones from being looked at.
func (w *policyWriter) stop(keys, why string) {
	w.exempt++
	w.count++
	fmt.Fprintf(&w.text, "  # %s\n  - {name: %sexempt/%d, keys: %q, limit: 1000000, per: 1s, mode: shadow, last: true}\n", strings.ReplaceAll(why, "\n", " "), namePrefix, w.exempt, keys)
}

func (w *policyWriter) limit(l *ConfigLimit) {
	at := fmt.Sprintf("%s:%d", l.File, l.Line)
	keys, by, ok := patternOf(l.Domain, l.Path)
	if !ok {
		w.note(at, "left out: its keys have { or } or are longer than 256 bytes, which no policy can say: its requests are not limited")
		return
	}
	if l.Unlimited {
		w.stop(keys, placeText(l.Domain, l.Path)+" is unlimited")
		return
	}
	n, per := uint64(l.Requests), l.Period()
	if n == 0 {
		n, per = 1, weirlimit.MaxPer
		w.note(at, "requests_per_unit: 0 lets none pass; a policy has a limit of 1 or more: one in 366 days passes")
	}
	w.count++
	fmt.Fprintf(&w.text, "  - name: %s\n    keys: %q\n", l.Name, keys)
	if by != "" {
		fmt.Fprintf(&w.text, "    by: %q\n", by)
	}
	fmt.Fprintf(&w.text, "    limit: %d\n    per: %s\n", n, units.FormatDuration(per.Truncate(time.Second)))
	if l.Shadow {
		w.text.WriteString("    mode: shadow\n")
	}
	w.text.WriteString("    last: true\n")
	if l.Quota {
		w.note(at, "quota_mode: a policy denies by itself, whatever others of the request say")
	}
	if len(l.Replaces) > 0 {
		w.note(at, "replaces: no policy replaces another one: the limits "+strings.Join(l.Replaces, ", ")+" hold too")
	}
	if l.CountsValues() {
		w.note(at, "detailed_metric and value_to_metric are left out: 'weir limits keys "+l.Name+"' says which keys use most")
	}
	if l.Metadata != nil {
		w.note(at, "metadata is left out: no policy has any")
	}
	for _, s := range l.Path {
		if strings.Contains(s.Value, "*") {
			w.note(at, "a * takes one byte or more, not none")
		}
	}
}

// patternOf is the keys of a path, and what they are counted by, "" for the key itself; ok tells whether a policy can have
// them.
func patternOf(domain string, path []ConfigStep) (keys, by string, ok bool) {
	const mostCaptures, mostBytes = pattern.MaxWildcards, pattern.MaxPatternBytes
	literal := func(text string, name bool) string {
		b := string(appendEscaped(nil, text, name))
		ok = ok && !strings.ContainsAny(b, "{}")
		return b
	}
	ok = true
	captures, shared := 0, false
	capture := func() string {
		captures++
		return fmt.Sprintf("{v%d}", captures)
	}
	k := literal(domain, false)
	b := k
	ok = ok && !strings.Contains(k, "*")
	for _, s := range path {
		part := ":" + literal(s.Key, true) + "="
		k, b = k+part, b+part
		if s.Value == "" {
			c := capture()
			k, b = k+c, b+c
			continue
		}
		for i, text := range strings.Split(s.Value, "*") {
			if i > 0 && (text != "" || i == strings.Count(s.Value, "*")) {
				c := capture()
				if k += c; s.Share {
					shared = true
					b += "any"
				} else {
					b += c
				}
			}
			k, b = k+literal(text, false), b+literal(text, false)
		}
	}
	if !shared {
		b = ""
	}
	return k, b, ok && captures <= mostCaptures && len(k)+2 <= mostBytes && len(b) <= mostBytes
}

// LimitKey is the key that is counted of a request's descriptor: DOMAIN:KEY=VALUE:KEY=VALUE. In its parts
// the characters % : / are %25 %3A %2F, and = in a key is %3D, so that no two descriptors have one key, and a
// {name} of a policy takes one value. An entry without a value is its key alone. A key that would be
// longer than engine.MaxKeyBytes ends in %~ and a hash of the whole.
func LimitKey(domain string, entries []ConfigEntry) string {
	size := len(domain)
	for _, e := range entries {
		size += 2 + len(e.Key) + len(e.Value)
	}
	b := make([]byte, 0, min(size+16, 4*engine.MaxKeyBytes))
	b = appendEscaped(b, domain, false)
	for _, e := range entries {
		b = appendEntry(append(b, ':'), e.Key, e.Value)
	}
	return string(shorten(b, engine.MaxKeyBytes))
}

func appendEntry(b []byte, key, value string) []byte {
	if b = appendEscaped(b, key, true); value != "" {
		b = appendEscaped(append(b, '='), value, false)
	}
	return b
}

// shorten has a text of more than so many bytes end in %~ and a hash of the whole.
func shorten(b []byte, most int) []byte {
	const hashed = 2 + 2*sha256.Size
	if len(b) <= most {
		return b
	}
	sum := sha256.Sum256(b)
	return hex.AppendEncode(append(b[:most-hashed], "%~"...), sum[:])
}

func appendEscaped(b []byte, text string, name bool) []byte {
	for i := range len(text) {
		switch c := text[i]; {
		case c == '%':
			b = append(b, "%25"...)
		case c == ':':
			b = append(b, "%3A"...)
		case c == '/':
			b = append(b, "%2F"...)
		case c == '=' && name:
			b = append(b, "%3D"...)
		default:
			b = append(b, c)
		}
	}
	return b
}

// namePrefix begins the names of all limits of a Config.
const namePrefix = policy.ListenerPrefix

// maxNameBytes is the longest name of a limit.
const maxNameBytes = 64

// limitName is the name of the limit at a place: rls/DOMAIN/KEY_VALUE/KEY. Where that is too long, or has characters that
// no name has, they are - and a hash of the place ends it.
func limitName(domain string, path []ConfigStep) string {
	var b strings.Builder
	b.WriteString(domain)
	for _, s := range path {
		b.WriteString("/" + s.Key)
		if s.Value != "" {
			b.WriteString("_" + s.Value)
		}
	}
	place, changed := b.String(), strings.Contains(domain, "/")
	name := []byte(namePrefix + place)
	for i, c := range name[len(namePrefix):] {
		if !isNameByte(c) {
			name[len(namePrefix)+i] = '-'
			changed = true
		}
	}
	for _, s := range path {
		changed = changed || strings.Contains(s.Key+s.Value, "/")
	}
	if !changed && len(name) <= maxNameBytes {
		return string(name)
	}
	const digits = 8
	hash := sha256.New()
	writePart := func(text string) { // no two places are the same bytes
		hash.Write([]byte(text))
		hash.Write([]byte{0})
	}
	writePart(domain)
	for _, s := range path {
		writePart(s.Key)
		writePart(s.Value)
	}
	name = name[:min(len(name), maxNameBytes-1-2*digits)]
	return string(name) + "-" + hex.EncodeToString(hash.Sum(nil)[:digits])
}

func isNameByte(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("._/-", c) >= 0
}
