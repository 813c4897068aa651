package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/weir-counter/weir/internal/nearest"
	"github.com/weir-counter/weir/internal/units"
)

// document reads the one YAML document of a file; nil with a fault told if there is none.
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

// tabNear is a line with a tab in its indent, at or beside a line, or 0: such a line may
// be the fault of its neighbours, and no tab is to be seen in most editors.
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
				hint = "; it is a configuration of envoyproxy/ratelimit: see weir limits import"
			}
			p.fault(key.Line, within+units.Excerpt(name), "unknown field%s; there are %s%s", nearest.DidYouMean(name, known), strings.Join(known, ", "), hint)
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
