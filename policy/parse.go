package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/filewatch"
	"github.com/weir-counter/weir/internal/pattern"
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
	byAPI    bool // it is one policy that is put by API
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
	made.Away = p.away(fields["away"], made.ByOne(), where)
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

// away reads what only a policy has whose limit the owner of the key decides.
func (p *parser) away(n *yaml.Node, byOne bool, field string) Away {
	if n != nil && !byOne {
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
		p.fault(n.Line, "name", "%q: write 1 to %d letters, digits or any of ._/-", units.Excerpt(name), engine.MaxLimitNameBytes)
	case strings.HasPrefix(name, InlinePrefix):
		p.fault(n.Line, "name", "%q: names that begin with %s belong to limits that requests bring along: write another", name, InlinePrefix)
	case p.byAPI && strings.HasPrefix(name, ListenerPrefix):
		p.fault(n.Line, "name", "%q: names that begin with %s belong to limits of --rls-config: write another", name, ListenerPrefix)
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
	return s != "" && len(s) <= engine.MaxLimitNameBytes
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

// document reads the one YAML document of a file; nil, and a fault, if there is none.
func (p *parser) document(data []byte) *yaml.Node {
	if line := unreadable(data); line > 0 {
		p.fault(line, "", "not text: save the file as UTF-8, without control characters")
		return nil
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		p.fault(0, "", "not YAML: %v", err)
		return nil
	}
	var doc, more yaml.Node
	if err := loader.Load(&doc); errors.Is(err, io.EOF) {
		p.fault(0, "limits", noLimits)
		return nil
	} else if err != nil {
		p.notYAML(err, data)
		return nil
	}
	if err := loader.Load(&more); !errors.Is(err, io.EOF) {
		if err != nil {
			p.notYAML(err, data)
			return nil
		}
		p.fault(more.Line, "", "a second document: put all policies under one `limits:`, without ---")
		return nil
	}
	return doc.Content[0]
}

// notYAML tells what the YAML reader could not read.
func (p *parser) notYAML(err error, data []byte) {
	if at, ok := errors.AsType[*yaml.LoadError](err); ok {
		if line := tabNear(data, at.Mark.Line); line > 0 {
			p.fault(line, "", "not YAML: a tab in the indent: write spaces in its place")
			return
		}
		p.fault(at.Mark.Line, "", "not YAML: %s; look for a wrong indent, a missing colon, or * { } without quotes near this line", at.Message)
		return
	}
	p.fault(0, "", "not YAML: %v", err)
}

// tabNear returns a line with a tab in its indent, at a line or next to it, or 0. Such a tab causes
// errors in the lines around it, and most editors do not show it.
func tabNear(data []byte, near int) int {
	line := 0
	for text := range bytes.Lines(data) {
		line++
		indent := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]
		if line >= near-1 && line <= near+1 && bytes.IndexByte(indent, '\t') >= 0 {
			return line
		}
	}
	return 0
}

// unreadable is the first line with bytes that YAML in UTF-8 can't have, or 0.
func unreadable(data []byte) int {
	line := 1
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == '\n':
			line++
		case r == utf8.RuneError && size == 1, r < ' ' && r != '\t' && r != '\r', r == 0x7f:
			return line
		}
		data = data[size:]
	}
	return 0
}

// fields takes a mapping apart. It tells of fields that are not known, that stand
// twice, or have no name; nil if n is no mapping.
func (p *parser) fields(n *yaml.Node, within, example string, known []string) map[string]*yaml.Node {
	if n.Kind != yaml.MappingNode {
		p.fault(n.Line, strings.TrimSuffix(within, "."), "%s: write fields, for example `%s`", kindText(n), example)
		return nil
	}
	fields := make(map[string]*yaml.Node, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch name := key.Value; {
		case key.Kind != yaml.ScalarNode:
			p.fault(key.Line, strings.TrimSuffix(within, "."), "%s in place of a field's name: there are %s", kindText(key), strings.Join(known, ", "))
		case !slices.Contains(known, name):
			hint := ""
			if name == "domain" && slices.Contains(known, "limits") { // of a file, not of a policy
				hint = "; it is a configuration of envoyproxy/ratelimit: name it with --rls-config"
			}
			p.fault(key.Line, within+units.Excerpt(name), "unknown field%s; there are %s%s", units.DidYouMean(name, known), strings.Join(known, ", "), hint)
		case fields[name] != nil:
			p.fault(key.Line, within+name, "it stands twice, first in line %d: remove one", fields[name].Line)
		default:
			fields[name] = value
		}
	}
	return fields
}

// list is the elements of a sequence.
func (p *parser) list(n *yaml.Node, field, example string) []*yaml.Node {
	if n.Kind != yaml.SequenceNode {
		p.fault(n.Line, field, "%s: write a list, each element with a dash: `- %s`", kindText(n), example)
		return nil
	}
	return n.Content
}

// text is a scalar as it was written: 5m and 1_000 mean what the field takes them for,
// not what YAML does.
func (p *parser) text(n *yaml.Node, field, example string) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		p.fault(n.Line, field, "%s: write for example `%s`", kindText(n), example)
		return "", false
	}
	return n.Value, true
}

// kindText says what a node is in the words that its author knows.
func kindText(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle != 0:
		return "{ } without quotes is a mapping"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return fmt.Sprintf("*%s is an alias of YAML, which is not taken here (write * in quotes)", units.Excerpt(n.Value))
	case n.ShortTag() == "!!null":
		return "it is empty"
	}
	return fmt.Sprintf("%q", units.Excerpt(n.Value))
}
