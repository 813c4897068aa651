package policy

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/filewatch"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy/pattern"
)

const (
	noLimits      = "there are none: write `limits:` and a list of policies, or `limits: []` for none on purpose"
	policyExample = "name: login"
)

var (
	fileFields     = []string{"limits"}
	policyFields   = []string{"name", "keys", "by", "limit", "per", "tz", "anchor", "burst", "algorithm", "mode", "where", "regions", "within", "away", "deny_for", "warn", "wait", "cost", "order", "last", "overrides"}
	overrideFields = []string{"key", "limit", "per", "burst"}
)

// Parse reads a policy file; file is its name for the messages. The error is Faults: all
// that is wrong.
func Parse(file string, data []byte) (*Set, error) {
	p := parser{file: file, names: map[string]int{}}
	if len(data) > MaxFileBytes {
		p.fault(0, "", "%s", tooLarge())
	} else if root := p.document(data); root != nil {
		p.root(root)
	}
	if len(p.faults) > 0 {
		return nil, p.sorted()
	}
	return p.set(filewatch.HashOf(data)), nil
}

// parser reads one file.
type parser struct {
	file     string
	policies []parsedPolicy
	atOnce   concurrencies
	names    map[string]int // policies so far, with their lines
	faults   Faults
	more     int // faults beyond MaxFaults
}

// parsedPolicy is a policy and what was made of its texts.
type parsedPolicy struct {
	Policy
	pattern  pattern.Pattern
	template pattern.Template
}

func (p *parser) fault(line int, field, format string, args ...any) {
	if len(p.faults) == MaxFaults {
		p.more++
		return
	}
	p.faults = append(p.faults, Fault{p.file, line, field, fmt.Sprintf(format, args...)})
}

func (p *parser) sorted() Faults {
	slices.SortStableFunc(p.faults, func(a, b Fault) int { return a.Line - b.Line })
	if p.more > 0 {
		p.faults = append(p.faults, Fault{p.file, 0, "", fmt.Sprintf("and %d more faults", p.more)})
	}
	return p.faults
}

func (p *parser) root(n *yaml.Node) {
	if n.ShortTag() == "!!null" {
		p.fault(n.Line, "limits", noLimits)
		return
	}
	fields := p.fields(n, "", "limits:", fileFields)
	limits := fields["limits"]
	switch {
	case fields == nil:
		return
	case limits == nil || limits.ShortTag() == "!!null":
		p.fault(n.Line, "limits", noLimits)
		return
	}
	list := p.list(limits, "limits", policyExample)
	if len(list) > MaxPolicies {
		p.fault(limits.Line, "limits", "%d policies: at most %d; a pattern like \"user:*\" is one policy for all users", len(list), MaxPolicies)
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
	fields := p.fields(n, "", policyExample, policyFields)
	if fields == nil {
		return
	}
	for _, required := range []string{"name", "keys", "limit", "per"} {
		if fields[required] == nil {
			p.fault(n.Line, required, "it is missing: every policy has name, keys, limit and per")
		}
	}
	made := parsedPolicy{Policy: Policy{Line: n.Line}}
	made.Name = p.name(fields["name"])
	patternOK := p.keys(&made, fields["keys"])
	templateOK := p.by(&made, fields["by"], patternOK)
	made.Limit.Algorithm = limit.Algorithm(p.choice(fields["algorithm"], "algorithm", algorithms))
	made.Mode = Mode(p.choice(fields["mode"], "mode", modes))
	where := p.where(&made, fields)
	made.DenyFor = p.denyFor(fields["deny_for"])
	made.Warn = p.warn(fields["warn"])
	made.Wait = p.wait(fields["wait"])
	made.Cost = p.cost(fields["cost"])
	made.Order = p.whole(fields["order"], "order")
	made.Last = p.truth(fields["last"], "last")
	limitOK, burstOK := p.limitFields(&made.Limit, fields, "")
	if fields["limit"] == nil || fields["per"] == nil {
		limitOK = false
	}
	limitOK = p.calendar(&made, fields, where) && limitOK
	made.Away = p.away(fields["away"], made.Where, where)
	written := made.Limit // overrides inherit what is written
	if limitOK {
		limitOK = p.checkLimit(&made.Limit, burstOK, fields, "", n.Line)
	}
	if limitOK && made.Parts != nil {
		p.checkParts(&made, fields)
	}
	if limitOK && made.Global {
		p.checkGlobal(&made, fields, n.Line)
	}
	if list := fields["overrides"]; list != nil {
		o := overrides{parser: p, policy: &made, written: written, limitOK: limitOK, keysOK: patternOK && templateOK}
		o.read(list)
	}
	p.policies = append(p.policies, made)
}

// away reads what only a strict policy has.
func (p *parser) away(n *yaml.Node, where limit.Where, field string) Away {
	if n != nil && !where.ByOne() {
		p.fault(n.Line, "away", "it is for strict and leased limits, whose one node that decides may be away: remove it, or the `%s`", field)
		return 0
	}
	return Away(p.choice(n, "away", aways))
}

// name reads the name of a policy, which is the engine's name of its limit.
func (p *parser) name(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	name, ok := p.text(n, "name", policyExample)
	switch first, again := p.names[name]; {
	case !ok:
		return ""
	case !isName(name):
		p.fault(n.Line, "name", "%q: write 1 to %d letters, digits or any of ._/-", units.Excerpt(name), weir.MaxLimitNameBytes)
	case strings.HasPrefix(name, InlinePrefix):
		p.fault(n.Line, "name", "%q: names that begin with %s belong to limits that requests bring along: write another", name, InlinePrefix)
	case again:
		p.fault(n.Line, "name", "%q stands twice, first in line %d: give each policy its own name", name, first)
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
	return s != "" && len(s) <= weir.MaxLimitNameBytes
}

func (p *parser) keys(made *parsedPolicy, n *yaml.Node) bool {
	if n == nil {
		return false
	}
	text, ok := p.text(n, "keys", `keys: "login:*"`)
	if !ok {
		return false
	}
	keys, err := pattern.Parse(text)
	if err != nil {
		p.fault(n.Line, "keys", "%q: %v", units.Excerpt(text), err)
		return false
	}
	made.Keys, made.pattern = text, keys
	return true
}

func (p *parser) by(made *parsedPolicy, n *yaml.Node, patternOK bool) bool {
	if n == nil {
		return true
	}
	text, ok := p.text(n, "by", `by: "login:{user}"`)
	if !ok || !patternOK {
		return false
	}
	by, err := pattern.ParseTemplate(text, &made.pattern)
	if err != nil {
		p.fault(n.Line, "by", "%q: %v", units.Excerpt(text), err)
		return false
	}
	made.By, made.template = text, by
	return true
}
