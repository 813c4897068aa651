package policy

import (
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/filewatch"
	"github.com/weir-counter/weir/internal/pattern"
	"github.com/weir-counter/weir/internal/settings"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/limit"
	"go.yaml.in/yaml/v4"
)

const (
	noLimits      = "there are none: write `limits:` and a list of policies, or `limits: []` for none on purpose"
	policyExample = "name: login"
)

var (
	fileFields     = []string{"limits"}
	policyFields   = []string{"name", "keys", "by", "limit", "per", "tz", "anchor", "burst", "algorithm", "mode", "where", "regions", "within", "away", "deny_for", "warn", "wait", "cost", "count_if", "order", "last", "except", "overrides"}
	overrideFields = []string{"key", "cidr", "limit", "per", "burst"}
)

// Parse reads a policy file; file is its name for the messages. The error is Faults: all that is wrong.
func Parse(file string, data []byte) (*Set, error) {
	p := newParser(file)
	if len(data) > MaxFileBytes {
		p.Fault(0, "", "%s", tooLarge())
	} else if root := p.Document(data); root != nil {
		p.root(root)
	}
	if faults := p.Faults(); faults != nil {
		return nil, faults
	}
	return p.set(filewatch.HashOf(data)), nil
}

// parser reads one file.
type parser struct {
	settings.Reader
	byAPI    bool // it is one policy that is put by API
	policies []parsedPolicy
	atOnce   []parsedConcurrency
	names    map[string]int // policies so far, with their lines
	ranged   int            // address ranges so far
}

func newParser(file string) *parser {
	p := &parser{names: map[string]int{}}
	p.Empty = Fault{Field: "limits", Message: noLimits}
	p.Second = "put all policies under one `limits:`, without ---"
	p.Hints = map[string]string{"domain": "; it is a configuration of envoyproxy/ratelimit: name it with --rls-config"}
	p.Open(file)
	return p
}

// parsedPolicy is a policy and what was made of its texts.
type parsedPolicy struct {
	Policy
	pattern  pattern.Pattern
	template pattern.Template
	ranges   *ranges // nil: it has none
}

func (p *parser) root(n *yaml.Node) {
	if settings.IsNull(n) {
		p.Fault(n.Line, "limits", noLimits)
		return
	}
	fields := p.Fields(n, "", "limits:", fileFields)
	limits := fields["limits"]
	switch {
	case fields == nil:
		return
	case settings.IsNull(limits):
		p.Fault(n.Line, "limits", noLimits)
		return
	}
	list := p.List(limits, "limits", policyExample)
	if len(list) > MaxPolicies {
		p.Fault(limits.Line, "limits", "%d policies: at most %d; a pattern like \"user:*\" is one policy for all users", len(list), MaxPolicies)
		return
	}
	for _, n := range list {
		if hasMax(n) {
			p.concurrency(n)
			continue
		}
		p.policy(n)
	}
}

// policy reads one element of limits.
func (p *parser) policy(n *yaml.Node) {
	fields := p.Fields(n, "", policyExample, policyFields)
	if fields == nil {
		return
	}
	for _, required := range []string{"name", "keys", "limit", "per"} {
		if fields[required] == nil {
			p.Fault(n.Line, required, "it is missing: every policy has name, keys, limit and per")
		}
	}
	made := parsedPolicy{Policy: Policy{Line: n.Line}}
	made.Name = p.name(fields["name"])
	patternOK := p.keys(&made, fields["keys"])
	templateOK := p.by(&made, fields["by"], patternOK)
	made.Limit.Algorithm = limit.Algorithm(p.choice(fields["algorithm"], "algorithm", algorithms))
	made.Mode = Mode(p.choice(fields["mode"], "mode", modes))
	where := p.where(&made, fields)
	made.DenyFor = p.duration(fields["deny_for"], "deny_for", "deny_for: 10m", MinDenyFor, engine.MaxBan, "")
	made.Warn = p.percent(fields["warn"], "warn", "from which share of the burst on the answer warns", "warn: 80%")
	made.Wait = p.duration(fields["wait"], "wait", "wait: 200ms", time.Millisecond, MaxWait, "")
	made.Cost = p.cost(fields["cost"])
	if made.CountIf = p.outcome(fields["count_if"]); made.CountIf != nil && made.DenyFor > 0 {
		p.Fault(fields["deny_for"].Line, "deny_for", "requests that wait for their answer would ban a key, whether they count or not: leave out deny_for or count_if")
	}
	made.Order = p.whole(fields["order"], "order")
	made.Last = p.truth(fields["last"], "last")
	limitOK, burstOK := p.limitFields(&made.Limit, fields, "")
	if fields["limit"] == nil || fields["per"] == nil {
		limitOK = false
	}
	limitOK = p.calendar(&made, fields, where) && limitOK
	made.Away = p.away(fields["away"], made.Where.ByOne(), where)
	written := made.Limit // overrides inherit what is written
	if limitOK {
		limitOK = p.checkLimit(&made.Limit, burstOK, fields, "", n.Line)
	}
	if limitOK && made.Parts != nil {
		p.checkParts(&made, fields)
	}
	o := overrides{parser: p, policy: &made, written: written, limitOK: limitOK, keysOK: patternOK && templateOK, lines: map[string]int{}}
	if list := fields["except"]; list != nil {
		made.Except = o.except(list)
	}
	if list := fields["overrides"]; list != nil {
		o.read(list)
	}
	o.ranges(n.Line)
	p.policies = append(p.policies, made)
}

// away reads what only a policy has whose limit the owner of the key decides.
func (p *parser) away(n *yaml.Node, byOne bool, field string) Away {
	if n != nil && !byOne {
		p.Fault(n.Line, "away", "it is for strict and leased limits, whose one node that decides may be away: remove it, or the `%s`", field)
		return 0
	}
	return Away(p.choice(n, "away", aways))
}

// name reads the name of a policy, which is the engine's name of its limit.
func (p *parser) name(n *yaml.Node) string {
	name, ok := p.Text(n, "name", policyExample)
	switch first, again := p.names[name]; {
	case !ok:
		return ""
	case !isName(name):
		p.Fault(n.Line, "name", "%q: write 1 to %d letters, digits or any of ._/-", units.Excerpt(name), engine.MaxLimitNameBytes)
	case strings.HasPrefix(name, InlinePrefix):
		p.Fault(n.Line, "name", "%q: names that begin with %s belong to limits that requests bring along: write another", name, InlinePrefix)
	case p.byAPI && strings.HasPrefix(name, ListenerPrefix):
		p.Fault(n.Line, "name", "%q: names that begin with %s belong to limits of --rls-config: write another", name, ListenerPrefix)
	case again:
		p.Fault(n.Line, "name", "%q stands twice, first in line %d: give each policy its own name", name, first)
	default:
		p.names[name] = n.Line
	}
	return name
}

func isName(s string) bool {
	for i := range len(s) {
		if c := s[i]; !('a' <= c|0x20 && c|0x20 <= 'z') && !('0' <= c && c <= '9') && strings.IndexByte("._/-", c) < 0 {
			return false
		}
	}
	return s != "" && len(s) <= engine.MaxLimitNameBytes
}

func (p *parser) keys(made *parsedPolicy, n *yaml.Node) bool {
	text, ok := p.Text(n, "keys", `keys: "login:*"`)
	if !ok {
		return false
	}
	keys, err := pattern.Parse(text)
	if err != nil {
		p.Fault(n.Line, "keys", "%q: %v", units.Excerpt(text), err)
		return false
	}
	made.Keys, made.pattern = text, keys
	return true
}

func (p *parser) by(made *parsedPolicy, n *yaml.Node, patternOK bool) bool {
	if n == nil {
		return true
	}
	text, ok := p.Text(n, "by", `by: "login:{user}"`)
	if !ok || !patternOK {
		return false
	}
	by, err := pattern.ParseTemplate(text, &made.pattern)
	if err != nil {
		p.Fault(n.Line, "by", "%q: %v", units.Excerpt(text), err)
		return false
	}
	made.By, made.template = text, by
	return true
}
