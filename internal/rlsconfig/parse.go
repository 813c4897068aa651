package rlsconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/weir-counter/weir/internal/filewatch"
	"github.com/weir-counter/weir/internal/nearest"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/policy"
)

// Options say how a Config is read.
type Options struct {
	// MergeDomains lets several files have one domain, whose descriptors are then side by side. Else
	// the second file is an error, as in envoyproxy/ratelimit.
	MergeDomains bool
}

// Load is Read and Parse.
func Load(path string, o Options) (*Config, error) {
	data, err := Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(data, o)
}

// Parse reads what Read returned. The error is policy.Faults: all that is wrong, by file and line.
func Parse(data []byte, o Options) (*Config, error) {
	p := newParser(o)
	for rest := data; len(rest) > 0; {
		name, text, more, err := cutFile(rest)
		if err != nil {
			return nil, err
		}
		rest = more
		p.file = name
		if root := p.document(text); root != nil {
			p.root(root)
		}
	}
	return p.done(filewatch.HashOf(data))
}

// parser reads the files of one Config.
type parser struct {
	Options
	made    *Config
	file    string            // that is read
	domains map[string]string // so far, with the file that has them first
	names   map[string]*Limit
	nodes   int // of YAML that were looked at
	faults  policy.Faults
	more    int // faults beyond policy.MaxFaults
}

func newParser(o Options) *parser {
	return &parser{Options: o, made: &Config{domains: map[string]*level{}}, domains: map[string]string{}, names: map[string]*Limit{}}
}

func (p *parser) fault(line int, field, format string, args ...any) {
	if len(p.faults) == policy.MaxFaults {
		p.more++
		return
	}
	p.faults = append(p.faults, policy.Fault{File: p.file, Line: line, Field: field, Message: fmt.Sprintf(format, args...)})
}

func (p *parser) done(content filewatch.Hash) (*Config, error) {
	if n := len(p.made.limits); n > MaxLimits {
		p.fault(0, "", "%d limits: at most %d; a descriptor without a value is one limit for all values", n, MaxLimits)
	}
	if len(p.faults) == 0 {
		p.made.content = content
		return p.made, nil
	}
	if p.more > 0 {
		p.faults = append(p.faults, policy.Fault{File: p.file, Message: fmt.Sprintf("and %d more faults", p.more)})
	}
	return nil, p.faults
}

// document is the one YAML document of a file; nil with a fault told if there is none.
func (p *parser) document(text []byte) *yaml.Node {
	var doc, more yaml.Node
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err == nil {
		err = loader.Load(&doc)
	}
	if at, ok := errors.AsType[*yaml.LoadError](err); ok {
		p.fault(at.Mark.Line, "", "not YAML: %s; look for a wrong indent, a missing colon, a tab, or * { } without quotes near this line", at.Message)
		return nil
	}
	switch {
	case errors.Is(err, io.EOF):
		p.fault(0, "domain", "the file is empty: write `domain:` and `descriptors:`, or remove the file")
		return nil
	case err != nil:
		p.fault(0, "", "not YAML: %v", err)
		return nil
	}
	if err := loader.Load(&more); !errors.Is(err, io.EOF) {
		p.fault(more.Line, "", "a second document: give each domain a file of its own")
		return nil
	}
	return doc.Content[0]
}

// maxNodes bounds what aliases of aliases may unfold to.
const maxNodes = 200_000

// resolve is what an alias stands for. It tells when there are too many.
func (p *parser) resolve(n *yaml.Node) *yaml.Node {
	p.nodes++
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if p.nodes == maxNodes {
		p.fault(n.Line, "", "more than %d nodes of YAML, aliases unfolded", maxNodes)
	}
	if p.nodes >= maxNodes {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: n.Line}
	}
	return n
}

func isNull(n *yaml.Node) bool { return n == nil || n.ShortTag() == "!!null" }

// fields takes a mapping apart; nil with a fault told if n is none.
func (p *parser) fields(n *yaml.Node, within string, known []string) map[string]*yaml.Node {
	if n.Kind != yaml.MappingNode {
		p.fault(n.Line, strings.TrimSuffix(within, "."), "%s: write fields; there are %s", kindText(n), strings.Join(known, ", "))
		return nil
	}
	fields := make(map[string]*yaml.Node, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := p.resolve(n.Content[i]), p.resolve(n.Content[i+1])
		switch name := key.Value; {
		case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str":
			p.fault(key.Line, strings.TrimSuffix(within, "."), "%s in place of a field's name: there are %s", kindText(key), strings.Join(known, ", "))
		case !slices.Contains(known, name):
			p.fault(key.Line, within+short(name), "unknown field%s; there are %s here", nearest.DidYouMean(name, known), strings.Join(known, ", "))
		case fields[name] != nil:
			p.fault(key.Line, within+name, "it stands twice, first in line %d: remove one", fields[name].Line)
		default:
			fields[name] = value
		}
	}
	return fields
}

// list is the elements of a list; none of one that is empty.
func (p *parser) list(n *yaml.Node, field string) (elements []*yaml.Node) {
	if isNull(n) {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		p.fault(n.Line, field, "%s: write a list, each element with a dash", kindText(n))
		return nil
	}
	for _, e := range n.Content {
		elements = append(elements, p.resolve(e))
	}
	return elements
}

// text is a scalar as it is written; "" of nothing.
func (p *parser) text(n *yaml.Node, field string) string {
	switch {
	case isNull(n):
		return ""
	case n.Kind != yaml.ScalarNode:
		p.fault(n.Line, field, "%s: write a text", kindText(n))
		return ""
	}
	return n.Value
}

// truths are the words that YAML 1.1 has for it, which envoyproxy/ratelimit takes.
var truths = map[string]bool{"true": true, "yes": true, "on": true, "y": true, "false": false, "no": false, "off": false, "n": false}

func (p *parser) truth(n *yaml.Node, field string) bool {
	text := strings.ToLower(p.text(n, field))
	is, known := truths[text]
	if text != "" && !known {
		p.fault(n.Line, field, "%q: write true or false", short(text))
	}
	return is
}

func kindText(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "it is empty"
	}
	return fmt.Sprintf("%q", short(n.Value))
}

// short keeps a message short.
func short(s string) string { return units.Clip(s, 60) }
