package envoy

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/filewatch"
	"github.com/weir-counter/weir/internal/settings"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/internal/wire"
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

// ReadConfig reads a YAML file, or the files *.yaml and *.yml of a folder, as ParseConfig takes them. Names that begin with
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

// AppendFile adds a file to the input of ParseConfig. Messages use its name.
func AppendFile(b []byte, name string, text []byte) []byte {
	return wire.AppendBlock(wire.AppendText(b, name), text)
}

// LoadConfig is ReadConfig and ParseConfig.
func LoadConfig(path string) (*LimitConfig, error) {
	data, err := ReadConfig(path)
	if err != nil {
		return nil, err
	}
	return ParseConfig(data)
}

// ParseConfig reads what ReadConfig returned. Several files may have one domain: its descriptors are then side by side. The error is
// policy.Faults: all that is wrong, by file and line.
func ParseConfig(data []byte) (*LimitConfig, error) {
	p := newParser()
	for r := wire.NewReader(data); r.Len() > 0; {
		name, text := string(r.Block()), bytes.Clone(r.Block())
		if r.Failed() {
			return nil, errors.New("rlsconfig: not what ReadConfig returns")
		}
		p.Open(name)
		if root := p.Document(text); root != nil {
			p.root(root)
		}
	}
	if n := len(p.made.limits); n > MaxLimits {
		p.Fault(0, "", "%d limits: at most %d; a descriptor without a value is one limit for all values", n, MaxLimits)
	}
	if faults := p.Faults(); faults != nil {
		return nil, faults
	}
	p.made.content = filewatch.HashOf(data)
	return p.made, nil
}

// maxNodes bounds what aliases of aliases may unfold to.
const maxNodes = 200_000

// parser reads the files of one Config.
type parser struct {
	settings.Reader
	made  *LimitConfig
	names map[string]*ConfigLimit
}

func newParser() *parser {
	return &parser{
		Reader: settings.Reader{
			MaxNodes: maxNodes, Second: "give each domain a file of its own",
			Empty: policy.Fault{Field: "domain", Message: "the file is empty: write `domain:` and `descriptors:`, or remove the file"},
		},
		made: &LimitConfig{domains: map[string]*level{}}, names: map[string]*ConfigLimit{},
	}
}

// list returns the elements of a list, resolved; none for an empty one.
func (p *parser) list(n *yaml.Node, field, example string) []*yaml.Node {
	if settings.IsNull(n) {
		return nil
	}
	return p.List(n, field, example)
}

// text returns a scalar as it is written, and "" if there is none.
func (p *parser) text(n *yaml.Node, field string) string {
	if settings.IsNull(n) {
		return ""
	}
	text, _ := p.Text(n, field, "")
	return text
}

// truths are the truth values of YAML 1.1, which envoyproxy/ratelimit takes too.
var truths = map[string]bool{"true": true, "yes": true, "on": true, "y": true, "false": false, "no": false, "off": false, "n": false}

func (p *parser) truth(n *yaml.Node, field string) bool {
	text := strings.ToLower(p.text(n, field))
	is, known := truths[text]
	if text != "" && !known {
		p.Fault(n.Line, field, "%q: write true or false", units.Excerpt(text))
	}
	return is
}

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
