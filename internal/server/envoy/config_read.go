package envoy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/filewatch"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/policy"
	"go.yaml.in/yaml/v4"
)

const (
	// MaxConfigFiles is how many files a folder may have.
	MaxConfigFiles = 1000
	// MaxBytes is the size of all files together.
	MaxBytes = 4 << 20
	// MaxLimits is how many limits a Config may have.
	MaxLimits = 5000
)

// ReadConfig reads a YAML file, or the files *.yaml and *.yml of a folder, as Parse takes them. Names that begin with
// a dot are left out: a mounted ConfigMap has some.
func ReadConfig(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	files := []string{path}
	if info.IsDir() {
		if files, err = list(path); err != nil {
			return nil, err
		}
	}
	var all []byte
	for _, file := range files {
		text, err := filewatch.Read(file, "limits", MaxBytes)
		if err != nil {
			return nil, err
		}
		if all = AppendFile(all, file, text); len(all) > MaxBytes {
			return nil, fmt.Errorf("%s: the files are larger than %s together", path, units.FormatSize(MaxBytes))
		}
	}
	return all, nil
}

func list(dir string) (files []string, err error) {
	entries, err := os.ReadDir(dir) // by name
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := e.Name()
		if ext := filepath.Ext(name); strings.HasPrefix(name, ".") || ext != ".yaml" && ext != ".yml" {
			continue
		}
		files = append(files, filepath.Join(dir, name))
	}
	switch {
	case len(files) == 0:
		return nil, fmt.Errorf("%s: it has no file whose name ends in .yaml or .yml", dir)
	case len(files) > MaxConfigFiles:
		return nil, fmt.Errorf("%s: %d files: at most %d", dir, len(files), MaxConfigFiles)
	}
	return files, nil
}

// ReadConfig returns for each file the length of its name and of its text, 4 bytes each, little-endian, and then both.

// AppendFile adds a file to the input of ParseConfig. Messages use its name.
func AppendFile(b []byte, name string, text []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(name)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	return append(append(b, name...), text...)
}

var errNoBundle = errors.New("rlsconfig: not what Read returns")

func cutFile(b []byte) (name string, text, rest []byte, err error) {
	if len(b) < 8 {
		return "", nil, nil, errNoBundle
	}
	n, m := uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:]))
	if b = b[8:]; uint64(len(b)) < n+m {
		return "", nil, nil, errNoBundle
	}
	return string(b[:n]), bytes.Clone(b[n : n+m]), b[n+m:], nil
}

// ConfigOptions say how a Config is read.
type ConfigOptions struct {
	// MergeDomains lets several files have one domain, whose descriptors are then side by side. Else
	// the second file is an error, as in envoyproxy/ratelimit.
	MergeDomains bool
}

// LoadConfig is Read and Parse.
func LoadConfig(path string, o ConfigOptions) (*LimitConfig, error) {
	data, err := ReadConfig(path)
	if err != nil {
		return nil, err
	}
	return ParseConfig(data, o)
}

// ParseConfig reads what Read returned. The error is policy.Faults: all that is wrong, by file and line.
func ParseConfig(data []byte, o ConfigOptions) (*LimitConfig, error) {
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
	ConfigOptions
	made    *LimitConfig
	file    string            // that is read
	domains map[string]string // so far, with the file that has them first
	names   map[string]*ConfigLimit
	nodes   int // of YAML that were looked at
	faults  policy.Faults
	more    int // faults beyond policy.MaxFaults
}

func newParser(o ConfigOptions) *parser {
	return &parser{ConfigOptions: o, made: &LimitConfig{domains: map[string]*level{}}, domains: map[string]string{}, names: map[string]*ConfigLimit{}}
}

func (p *parser) fault(line int, field, format string, args ...any) {
	if len(p.faults) == policy.MaxFaults {
		p.more++
		return
	}
	p.faults = append(p.faults, policy.Fault{File: p.file, Line: line, Field: field, Message: fmt.Sprintf(format, args...)})
}

func (p *parser) done(content filewatch.Hash) (*LimitConfig, error) {
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

// document returns the YAML document of a file. Unless there is exactly one, it records a fault and returns nil.
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

// resolve follows aliases. It records a fault when there are more than maxNodes nodes.
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

// fields returns the fields of a mapping. If n is no mapping, it records a fault and returns nil.
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
			p.fault(key.Line, within+rlsconfigShort(name), "unknown field%s; there are %s here", units.DidYouMean(name, known), strings.Join(known, ", "))
		case fields[name] != nil:
			p.fault(key.Line, within+name, "it stands twice, first in line %d: remove one", fields[name].Line)
		default:
			fields[name] = value
		}
	}
	return fields
}

// list returns the elements of a list, resolved; none for an empty one.
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

// text returns a scalar as it is written, and "" if there is none.
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

// truths are the truth values of YAML 1.1, which envoyproxy/ratelimit takes too.
var truths = map[string]bool{"true": true, "yes": true, "on": true, "y": true, "false": false, "no": false, "off": false, "n": false}

func (p *parser) truth(n *yaml.Node, field string) bool {
	text := strings.ToLower(p.text(n, field))
	is, known := truths[text]
	if text != "" && !known {
		p.fault(n.Line, field, "%q: write true or false", rlsconfigShort(text))
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
	return fmt.Sprintf("%q", rlsconfigShort(n.Value))
}

// rlsconfigShort keeps a message short.
func rlsconfigShort(s string) string { return units.Clip(s, 60) }

// maxValuesBytes is the longest Values that fit into a key that counts decisions: limit:NAME:shadow_denied:VALUES.
const maxValuesBytes = engine.MaxKeyBytes - len(admit.HitPrefix) - maxNameBytes - len(":shadow_denied:")

// CountsValues reports whether decisions are counted by Values too.
func (l *ConfigLimit) CountsValues() bool {
	for _, s := range l.Path {
		if s.open() && !s.Share && (s.Count || l.Detailed) {
			return true
		}
	}
	return false
}

// Values returns by what decisions about a descriptor are counted, in addition to the limit's name: KEY=VALUE:KEY,
// escaped as in LimitKey. A step with value_to_metric, or any step of a limit with detailed_metric, has the value of
// the request. Other steps, and values that count together, have the value of the configuration, which may be none. A
// text that is too long ends in %~ and a hash.
func (l *ConfigLimit) Values(entries []ConfigEntry) string {
	b := make([]byte, 0, 64)
	for i, s := range l.Path {
		if i > 0 {
			b = append(b, ':')
		}
		value := s.Value
		if s.open() && !s.Share && (s.Count || l.Detailed) {
			value = entries[i].Value
		}
		b = appendEntry(b, s.Key, value)
	}
	return string(shorten(b, maxValuesBytes))
}

// open reports whether more than one value fits.
func (s ConfigStep) open() bool { return s.Value == "" || strings.Contains(s.Value, "*") }
