package envoy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/settings"
	"github.com/weir-counter/weir/internal/units"
	weirlimit "github.com/weir-counter/weir/limit"
	"go.yaml.in/yaml/v4"
)

var (
	rootFields       = []string{"domain", "descriptors"}
	descriptorFields = []string{"key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode", "detailed_metric", "value_to_metric", "share_threshold", "metadata"}
	limitFields      = []string{"requests_per_unit", "unit", "unit_multiplier", "unlimited", "name", "replaces"}
	replacesFields   = []string{"name"}
)

const descriptorExample = "key: remote_address"

// maxDepth is how deep descriptors may be nested.
const maxDepth = 32

// root reads a file.
func (p *parser) root(n *yaml.Node) {
	fields := p.Fields(p.Resolve(n), "", "domain: edge", rootFields)
	if fields == nil {
		return
	}
	domain := p.text(fields["domain"], "domain")
	if domain == "" {
		p.Fault(n.Line, "domain", "it is missing: write the domain that Envoy's filter has, for example `domain: edge`")
		return
	}
	into := p.made.domains[domain]
	if into == nil {
		into = &level{keys: map[string]*choices{}}
		p.made.domains[domain] = into
	}
	for _, d := range p.list(fields["descriptors"], "descriptors", descriptorExample) {
		p.descriptor(d, into, domain, nil)
	}
}

// descriptor reads a descriptor and its nested descriptors into a level.
func (p *parser) descriptor(n *yaml.Node, into *level, domain string, above []ConfigStep) {
	fields := p.Fields(n, "", descriptorExample, descriptorFields)
	if fields == nil {
		return
	}
	if len(above) == maxDepth {
		p.Fault(n.Line, "descriptors", "nested deeper than %d", maxDepth)
		return
	}
	step := ConfigStep{
		Key: p.text(fields["key"], "key"), Value: p.text(fields["value"], "value"),
		Share: p.truth(fields["share_threshold"], "share_threshold"), Count: p.truth(fields["value_to_metric"], "value_to_metric"),
	}
	switch {
	case step.Key == "":
		p.Fault(n.Line, "key", "it is missing: every descriptor has one")
		return
	case strings.Contains(step.Key, "*"):
		p.Fault(fields["key"].Line, "key", "%q: a * stands for text in values alone", units.Excerpt(step.Key))
	case step.Share && !strings.Contains(step.Value, "*"):
		p.Fault(fields["share_threshold"].Line, "share_threshold", "it is for values with a *, which then count together: %s has none", stepText(step))
	}
	d := &node{step: step}
	p.place(d, into, n.Line, domain, above)
	path := append(slices.Clone(above), step)
	shadow, quota := p.truth(fields["shadow_mode"], "shadow_mode"), p.truth(fields["quota_mode"], "quota_mode")
	detailed := p.truth(fields["detailed_metric"], "detailed_metric") // metadata is for answers of envoyproxy/ratelimit alone
	if l := fields["rate_limit"]; !settings.IsNull(l) {
		d.limit = p.limit(l, ConfigLimit{Domain: domain, Path: path, Shadow: shadow, Quota: quota, Detailed: detailed, File: p.File, Line: l.Line})
	}
	within := p.list(fields["descriptors"], "descriptors", descriptorExample)
	if len(within) == 0 {
		return
	}
	d.within = &level{keys: map[string]*choices{}}
	for _, inner := range within {
		p.descriptor(inner, d.within, domain, path)
	}
}

// place adds a descriptor to its level.
func (p *parser) place(d *node, into *level, line int, domain string, above []ConfigStep) {
	byValue := into.keys[d.step.Key]
	if byValue == nil {
		byValue = &choices{exact: map[string]*node{}}
		into.keys[d.step.Key] = byValue
	}
	again := false
	switch value := d.step.Value; {
	case value == "":
		again = byValue.any != nil
		byValue.any = d
	case strings.Contains(value, "*"):
		again = slices.ContainsFunc(byValue.wild, func(other *node) bool { return other.step.Value == value })
		d.parts = strings.Split(value, "*")
		byValue.wild = append(byValue.wild, d)
	default:
		again = byValue.exact[value] != nil
		byValue.exact[value] = d
	}
	if again {
		p.Fault(line, "key", "a second descriptor %s: keep one", placeText(domain, append(slices.Clone(above), d.step)))
	}
}

// limit reads a rate_limit.
func (p *parser) limit(n *yaml.Node, l ConfigLimit) *ConfigLimit {
	const within = "rate_limit."
	fields := p.Fields(n, within, "unit: minute", limitFields)
	if fields == nil {
		return nil
	}
	l.Label = p.text(fields["name"], within+"name")
	l.Unlimited = p.truth(fields["unlimited"], within+"unlimited")
	l.Replaces = p.replaces(fields["replaces"], l.Label)
	if l.Unlimited {
		for _, no := range []string{"unit", "unit_multiplier"} {
			if f := fields[no]; !settings.IsNull(f) {
				p.Fault(f.Line, within+no, "it has no meaning beside `unlimited: true`: remove one of both")
			}
		}
	} else {
		p.rate(&l, fields, n.Line)
	}
	l.Name, l.ID = limitName(l.Domain, l.Path), len(p.made.limits)
	if other := p.names[l.Name]; other != nil && p.Faults() == nil {
		p.Fault(n.Line, "key", "this limit and the one in %s:%d have the name %s: change a key or a value", other.File, other.Line, l.Name)
	}
	p.names[l.Name] = &l
	p.made.limits = append(p.made.limits, &l)
	return &l
}

func (p *parser) rate(l *ConfigLimit, fields map[string]*yaml.Node, line int) {
	const within = "rate_limit."
	unit := strings.ToLower(p.text(fields["unit"], within+"unit"))
	switch l.Unit = unitOf(unit); {
	case unit == "":
		p.Fault(line, within+"unit", "it is missing: write one of %s", unitWords())
	case l.Unit == 0:
		p.Fault(fields["unit"].Line, within+"unit", "%q%s: write one of %s", units.Excerpt(unit), units.DidYouMean(unit, wordsOfUnits()), unitWords())
	}
	l.Multiplier = 1
	if f := fields["unit_multiplier"]; !settings.IsNull(f) {
		l.Multiplier = p.number(f, within+"unit_multiplier")
		if l.Multiplier == 0 && f.Value == "0" {
			p.Fault(f.Line, within+"unit_multiplier", "0: write 1 or more")
		}
	}
	f := fields["requests_per_unit"]
	if settings.IsNull(f) {
		p.Fault(line, within+"requests_per_unit", "it is missing: write a number; with 0 none passes")
		return
	}
	l.Requests = p.number(f, within+"requests_per_unit")
	if l.Unit == 0 || l.Multiplier == 0 {
		return
	}
	if err := CheckRate(l.Requests, l.Unit, l.Multiplier); err != nil {
		p.Fault(f.Line, within+"requests_per_unit", "%v", err)
	}
}

// CheckRate fails if there can be no such limit: more than a million requests per second, or a period above 366 days.
func CheckRate(requests uint32, unit ConfigUnit, multiplier uint32) error {
	per := uint64(unit.Duration()/time.Second) * uint64(multiplier)
	switch {
	case per > uint64(weirlimit.MaxPer/time.Second):
		return fmt.Errorf("a period of %d %ss: at most 366 days", multiplier, unit)
	case uint64(requests) > weirlimit.MaxRate*per:
		return fmt.Errorf("%d per %s: at most %d a second; a descriptor that needs no limit is `unlimited: true`", requests, unit, weirlimit.MaxRate)
	}
	return nil
}

func (p *parser) number(n *yaml.Node, field string) uint32 {
	text := p.text(n, field)
	v, err := strconv.ParseUint(strings.ReplaceAll(text, "_", ""), 10, 32)
	if err != nil {
		p.Fault(n.Line, field, "%q: write a whole number from 0 to 4294967295", units.Excerpt(text))
	}
	return uint32(v)
}

func (p *parser) replaces(n *yaml.Node, own string) (labels []string) {
	const field = "rate_limit.replaces"
	for _, e := range p.list(n, field, "name: other") {
		fields := p.Fields(e, field+".", "name: other", replacesFields)
		if fields == nil {
			continue
		}
		switch label := p.text(fields["name"], field+".name"); label {
		case "":
			p.Fault(e.Line, field+".name", "it is missing: write the `name` of the limit that is replaced")
		case own:
			p.Fault(e.Line, field+".name", "%q is the name of this limit itself", units.Excerpt(label))
		default:
			labels = append(labels, label)
		}
	}
	return labels
}

func unitOf(word string) ConfigUnit {
	return ConfigUnit(max(0, slices.IndexFunc(unitTable, func(u unitWord) bool { return u.word == word && word != "" })))
}

func wordsOfUnits() (words []string) {
	for _, u := range unitTable[1:] {
		words = append(words, u.word)
	}
	return words
}

func unitWords() string { return strings.Join(wordsOfUnits(), ", ") }

func stepText(s ConfigStep) string {
	if s.Value == "" {
		return s.Key
	}
	return s.Key + "=" + s.Value
}

// placeText names a descriptor in messages.
func placeText(domain string, path []ConfigStep) string {
	parts := []string{domain}
	for _, s := range path {
		parts = append(parts, stepText(s))
	}
	return units.Excerpt(strings.Join(parts, ", "))
}

// level has the descriptors directly below a domain or another descriptor.
type level struct{ keys map[string]*choices }

// choices are the descriptors of one level that have the same key.
type choices struct {
	exact map[string]*node
	wild  []*node // with a * in their value, in the order of the file
	any   *node   // without a value
}

// node is one descriptor.
type node struct {
	step   ConfigStep
	parts  []string // of a value with *, the texts between
	limit  *ConfigLimit
	within *level // nil: nothing is
}

// ConfigEntry is one pair of a request's descriptor.
type ConfigEntry struct{ Key, Value string }

// Has reports whether there is a domain.
func (c *LimitConfig) Has(domain string) bool { return c.domains[domain] != nil }

// Find returns the limit of a request's descriptor, or nil. At each level the most specific descriptor decides: the one
// with the entry's value, else the first whose * fits, else the one without a value. A limit applies only to
// descriptors of its own depth. Find replaces values that count together in entries.
//
// Cost: O(entries + descriptors with * of one key), without an allocation.
func (c *LimitConfig) Find(domain string, entries []ConfigEntry) *ConfigLimit {
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

func (l *level) find(e ConfigEntry) *node {
	byValue := l.keys[e.Key]
	if byValue == nil {
		return nil
	}
	if n := byValue.exact[e.Value]; n != nil {
		return n
	}
	for _, n := range byValue.wild {
		if fits(n.parts, e.Value) {
			return n
		}
	}
	return byValue.any
}

// fits reports whether a value consists of parts with any text between them, which may be empty. There are at least two
// parts.
//
// Each part in the middle is taken at its first occurrence. A later occurrence would leave less text for the remaining
// parts, so it could not help. The cost is O(len(value) * parts).
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
