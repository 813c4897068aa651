package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weir-counter/weir/internal/units"
	"go.yaml.in/yaml/v4"
)

// A Fault is one thing that is wrong with a file.
type Fault struct {
	File    string `json:"-"`
	Line    int    `json:"line"`    // from 1; 0: the file as a whole
	Field   string `json:"field"`   // "limit", "overrides.key"; "" for what is not a field's fault
	Message string `json:"message"` // what is wrong, and what to write
}

// String is FILE:LINE: FIELD: what is wrong; what to write.
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d", f.Line)
	}
	b.WriteString(": ")
	if f.Field != "" {
		b.WriteString(f.Field + ": ")
	}
	b.WriteString(f.Message)
	return b.String()
}

// Faults is all that is wrong with a file, in the order of its lines, a line for each. Beyond MaxFaults one last Fault
// says how many more there are.
type Faults []Fault

// MaxFaults is how many faults of one file are listed.
const MaxFaults = 100

func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// Reader collects the faults of one file, or of several: Open begins each.
type Reader struct {
	File     string            // that is read, for messages
	MaxNodes int               // aliases are followed, and no more nodes than these are looked at; 0: aliases are refused
	Empty    Fault             // the fault of a file without content; zero: there may be none
	Second   string            // the message about a second document
	Hints    map[string]string // what messages about unknown fields end in, by name

	nodes  int // so far, with MaxNodes
	faults Faults
	from   int // where the faults of File begin
	more   int // faults beyond MaxFaults
}

// Open begins a file.
func (r *Reader) Open(file string) {
	r.sort()
	r.File, r.from = file, len(r.faults)
}

func (r *Reader) sort() {
	slices.SortStableFunc(r.faults[r.from:], func(a, b Fault) int { return a.Line - b.Line })
}

// Fault notes what is wrong with a field of the file.
func (r *Reader) Fault(line int, field, format string, args ...any) {
	if len(r.faults) == MaxFaults {
		r.more++
		return
	}
	r.faults = append(r.faults, Fault{r.File, line, field, fmt.Sprintf(format, args...)})
}

// Faults returns what was noted; nil: nothing is wrong.
func (r *Reader) Faults() Faults {
	r.sort()
	if r.more > 0 {
		return append(r.faults, Fault{File: r.File, Message: fmt.Sprintf("and %d more faults", r.more)})
	}
	return r.faults
}

// Document returns the one YAML document of a file. If there is none, or a second one, it notes a fault and returns nil.
func (r *Reader) Document(data []byte) *yaml.Node {
	if line := unreadable(data); line > 0 {
		r.Fault(line, "", "not text: save the file as UTF-8, without control characters")
		return nil
	}
	var doc, more yaml.Node
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err == nil {
		err = loader.Load(&doc)
	}
	if errors.Is(err, io.EOF) {
		if r.Empty.Message != "" {
			r.Fault(r.Empty.Line, r.Empty.Field, "%s", r.Empty.Message)
		}
		return nil
	}
	if err == nil {
		if err = loader.Load(&more); errors.Is(err, io.EOF) {
			return doc.Content[0]
		}
	}
	if err != nil {
		r.notYAML(err, data)
		return nil
	}
	r.Fault(more.Line, "", "a second document: %s", r.Second)
	return nil
}

// notYAML notes what the YAML reader could not read.
func (r *Reader) notYAML(err error, data []byte) {
	at, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		r.Fault(0, "", "not YAML: %v", err)
		return
	}
	if line := tabNear(data, at.Mark.Line); line > 0 {
		r.Fault(line, "", "not YAML: a tab in the indent: write spaces in its place")
		return
	}
	r.Fault(at.Mark.Line, "", "not YAML: %s; look for a wrong indent, a missing colon, or * { } without quotes near this line", at.Message)
}

// tabNear returns a line with a tab in its indent, at a line or next to it, or 0. Such a tab causes errors in the lines
// around it, and most editors do not show it.
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

// Resolve follows aliases. It notes a fault when there are more than MaxNodes nodes.
func (r *Reader) Resolve(n *yaml.Node) *yaml.Node {
	if r.MaxNodes == 0 {
		return n
	}
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if r.nodes++; r.nodes < r.MaxNodes {
		return n
	}
	if r.nodes == r.MaxNodes {
		r.Fault(n.Line, "", "more than %d nodes of YAML, aliases unfolded", r.MaxNodes)
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: n.Line}
}

// manyFields is of how many fields not all are listed next to the one that was meant.
const manyFields = 50

// Fields returns the fields of a mapping, whose names begin with within in messages. It notes faults of fields that are
// not known, stand twice, or have no name. If n is no mapping, it notes a fault with an example, and returns nil.
func (r *Reader) Fields(n *yaml.Node, within, example string, known []string) map[string]*yaml.Node {
	if n.Kind != yaml.MappingNode {
		r.Fault(n.Line, strings.TrimSuffix(within, "."), "%s: write fields, for example `%s`", KindText(n), example)
		return nil
	}
	fields := make(map[string]*yaml.Node, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := r.Resolve(n.Content[i]), r.Resolve(n.Content[i+1])
		switch name := key.Value; {
		case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" && key.ShortTag() != "!!merge":
			r.Fault(key.Line, strings.TrimSuffix(within, "."), "%s in place of a field's name: there are %s", KindText(key), strings.Join(known, ", "))
		case !slices.Contains(known, name):
			meant, all := units.DidYouMean(name, known), "; there are "+strings.Join(known, ", ")
			if meant != "" && len(known) > manyFields {
				all = ""
			}
			r.Fault(key.Line, within+units.Excerpt(name), "unknown field%s%s%s", meant, all, r.Hints[name])
		case fields[name] != nil:
			r.Fault(key.Line, within+name, "it stands twice, first in line %d: remove one", fields[name].Line)
		default:
			fields[name] = value
		}
	}
	return fields
}

// List returns the elements of a sequence. If n is none, it notes a fault with an example of an element, and returns nil.
func (r *Reader) List(n *yaml.Node, field, example string) (elements []*yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		r.Fault(n.Line, field, "%s: write a list, each element with a dash: `- %s`", KindText(n), example)
		return nil
	}
	for _, e := range n.Content {
		elements = append(elements, r.Resolve(e))
	}
	return elements
}

// Text returns a scalar as it was written: 5m and 1_000 mean what the field takes them for, not what YAML does. It is
// not ok for nil, and for anything but a scalar, of which it notes a fault with an example, if there is
// one.
func (r *Reader) Text(n *yaml.Node, field, example string) (text string, ok bool) {
	if n == nil {
		return "", false
	}
	if n.Kind == yaml.ScalarNode && !IsNull(n) {
		return n.Value, true
	}
	write := "a text"
	if example != "" {
		write = "for example `" + example + "`"
	}
	r.Fault(n.Line, field, "%s: write %s", KindText(n), write)
	return "", false
}

// IsNull reports whether a node is missing or empty.
func IsNull(n *yaml.Node) bool { return n == nil || n.ShortTag() == "!!null" }

// KindText says what a node is in the words that its author knows.
func KindText(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle != 0:
		return "{ } without quotes is a mapping"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return fmt.Sprintf("*%s is an alias of YAML, which is not taken here (write * in quotes)", units.Excerpt(n.Value))
	case IsNull(n):
		return "it is empty"
	}
	return fmt.Sprintf("%q", units.Excerpt(n.Value))
}
