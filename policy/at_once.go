package policy

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/pattern"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/limit"
	"go.yaml.in/yaml/v4"
)

// A Concurrency is an entry of a file that limits how many are at work at once for a key: it has max in place of limit and per.
// It is asked for permits, and not by Live.
type Concurrency struct {
	Name string
	Keys string        // the pattern of the request's keys
	By   string        // the template of the key that is counted; "": the request's key
	Max  int           // how many at once, 1 to MaxAtOnce
	TTL  time.Duration // after how long a silent holder's permit is free, MinTTL to MaxTTL
	Line int           // of the file

	Version uint64 // as Policy.Version
}

// The bounds of a Concurrency.
const (
	MaxAtOnce = 10_000
	MinTTL    = time.Second
	MaxTTL    = time.Hour

	defaultTTL = 30 * time.Second
)

// AtOnce is a Concurrency that is for a key.
type AtOnce struct {
	Name string
	Key  string // that is counted
	Most int
	TTL  time.Duration
}

// concurrencyFields are the fields of an entry with max.
var concurrencyFields = []string{"name", "keys", "by", "max", "ttl"}

// parsedConcurrency is a Concurrency and what was made of its texts.
type parsedConcurrency struct {
	Concurrency
	pattern  pattern.Pattern
	template pattern.Template
}

// Concurrencies lists the entries with max, in the order of the file.
func (s *Set) Concurrencies() (list []Concurrency) {
	for _, c := range s.atOnce {
		list = append(list, c.Concurrency)
	}
	return list
}

// AtOnce lists the limits of how many at once that are for a key, or with a name that one. The error is a *engine.Error, or
// a *NamedError for a name that there is not, or that is not for the key.
func (s *Set) AtOnce(key, name string) (all []AtOnce, err error) {
	if len(key) < 1 || len(key) > engine.MaxKeyBytes {
		return nil, Failure(api.CodeInvalidKey, "key", "key of %d bytes: must have 1 to %d", len(key), engine.MaxKeyBytes)
	}
	known := name == ""
	for _, at := range s.atOnceIndex.Candidates(key) {
		var took pattern.Captures
		c := &s.atOnce[at]
		if name != "" && name != c.Name || !c.pattern.Match(key, &took) {
			continue
		}
		known = true
		counted := c.template.Key(key, &took)
		if len(counted) > engine.MaxKeyBytes {
			return nil, Failure(api.CodeInvalidKey, "key", "limit %s makes a key of %d bytes of key %q: at most %d", c.Name, len(counted), units.Excerpt(key), engine.MaxKeyBytes)
		}
		all = append(all, AtOnce{c.Name, counted, c.Max, c.TTL})
	}
	switch {
	case !known:
		return nil, &NamedError{name, Failure(api.CodeInvalidLimit, "limit", "no limit %q of how many at once (max) is for key %q", units.Excerpt(name), units.Excerpt(key))}
	case len(all) > engine.MaxChecks:
		return nil, Failure(api.CodeInvalidCount, "key", "more than %d limits are for key %q", engine.MaxChecks, units.Excerpt(key))
	}
	return all, nil
}

// concurrency reads an entry of limits with max.
func (p *parser) concurrency(n *yaml.Node) {
	fields := p.Fields(n, "", "name: jobs", concurrencyFields)
	if fields == nil {
		return
	}
	for _, required := range []string{"name", "keys"} {
		if fields[required] == nil {
			p.Fault(n.Line, required, "it is missing: a limit of how many at once has name, keys and max")
		}
	}
	made := parsedPolicy{Policy: Policy{Line: n.Line}}
	made.Name = p.name(fields["name"])
	patternOK := p.keys(&made, fields["keys"])
	p.by(&made, fields["by"], patternOK)
	most, _ := p.count(fields["max"], "max", "max: 20", MaxAtOnce)
	ttl := cmp.Or(p.duration(fields["ttl"], "ttl", "ttl: 30s", MinTTL, MaxTTL, ""), defaultTTL)
	c := Concurrency{Name: made.Name, Keys: made.Keys, By: made.By, Max: int(most), TTL: ttl, Line: n.Line}
	p.atOnce = append(p.atOnce, parsedConcurrency{c, made.pattern, made.template})
}

// hasMax reports whether an element of limits has a field max.
func hasMax(n *yaml.Node) bool {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "max" {
			return true
		}
	}
	return false
}

// Away says what becomes of the requests of a strict limit while the node that decides does not answer.
type Away uint8

const (
	// AwayClosed does not decide: the request fails, and is not reported as over the limit.
	AwayClosed Away = iota

	// AwayOpen admits, and counts nothing.
	AwayOpen
)

// wheres and aways are the words of the file, in the order of their constants.
var (
	wheres = []string{limit.WhereLeased.String(), limit.WhereNode.String(), limit.WhereStrict.String()}
	aways  = []string{"closed", "open"}
)

func (a Away) String() string {
	if int(a) < len(aways) {
		return aways[a]
	}
	return fmt.Sprintf("away %d", uint8(a))
}

// overrides reads the list of a policy.
type overrides struct {
	*parser
	policy  *parsedPolicy
	written limit.Limit    // of the policy, the burst not filled in
	limitOK bool           // the policy's limit is good
	keysOK  bool           // its keys and by are good
	lines   map[string]int // keys and ranges so far
}

const overrideExample = `key: "login:admin"`

func (o *overrides) read(list *yaml.Node) {
	for _, n := range o.List(list, "overrides", overrideExample) {
		o.override(n)
	}
}

func (o *overrides) override(n *yaml.Node) {
	fields := o.Fields(n, "overrides.", overrideExample, overrideFields)
	if fields == nil {
		return
	}
	made := Override{Line: n.Line, Limit: o.written}
	switch key, cidr := fields["key"], fields["cidr"]; {
	case key != nil && cidr != nil:
		o.Fault(cidr.Line, "overrides.cidr", "an override is for a key or for a range of addresses: remove one, or write two")
	case cidr != nil:
		made.Range = o.addresses(cidr, "overrides.cidr")
	case key != nil:
		made.Key = o.key(key)
	default:
		o.Fault(n.Line, "overrides.key", "it is missing: write the counted key that has another limit, for example `%s`, or `cidr: 192.0.2.0/24`", overrideExample)
	}
	if fields["limit"] == nil && fields["per"] == nil && fields["burst"] == nil {
		o.Fault(n.Line, "overrides.limit", "it is missing: an override has limit, per or burst, else it changes nothing")
		return
	}
	if rateOK, burstOK := o.limitFields(&made.Limit, fields, "overrides."); rateOK && o.limitOK {
		o.checkLimit(&made.Limit, burstOK, fields, "overrides.", n.Line)
	}
	o.policy.Overrides = append(o.policy.Overrides, made)
}

// key reads the key of an override: one that could be counted, each once.
func (o *overrides) key(n *yaml.Node) string {
	key, ok := o.Text(n, "overrides.key", overrideExample)
	if !ok {
		return ""
	}
	if len(key) < 1 || len(key) > engine.MaxKeyBytes {
		o.Fault(n.Line, "overrides.key", "%d bytes: a key has 1 to %d", len(key), engine.MaxKeyBytes)
		return ""
	}
	p := o.policy
	switch first, again := o.lines[key]; {
	case strings.ContainsAny(key, "*{}"):
		o.Fault(n.Line, "overrides.key", "%q: an override is for one key, and * and { } stand for no others here: write the whole key, or a policy of its own for many", units.Excerpt(key))
	case again:
		o.Fault(n.Line, "overrides.key", "%q stands twice, first in line %d: remove one", units.Excerpt(key), first)
	case o.keysOK && p.By == "" && !p.pattern.Fits(key):
		o.Fault(n.Line, "overrides.key", "%q is never counted: it does not fit keys %q; write the whole key", units.Excerpt(key), p.Keys)
	case o.keysOK && p.By != "" && !p.template.CanMake(key):
		o.Fault(n.Line, "overrides.key", "%q is never counted: it is no key that by %q makes; write the whole key", units.Excerpt(key), p.By)
	default:
		o.lines[key] = n.Line
	}
	return key
}
