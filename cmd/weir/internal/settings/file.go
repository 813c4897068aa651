package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"github.com/weir-counter/weir/internal/nearest"
	"github.com/weir-counter/weir/internal/units"
)

// MaxBytes bounds the settings file: far more than there are settings.
const MaxBytes = 1 << 20

// A setting is one `name: value` of the settings file. A list has several
// values.
type setting struct {
	name   string
	line   int
	values []string
}

// readSettings reads a YAML file of flags without their dashes. Several documents
// count as one.
func readSettings(path string) ([]setting, error) {
	text, err := ReadAtMost(path, MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("settings file: %w", err)
	}
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: not YAML: %w", path, err)
	}
	var settings []setting
	for {
		var doc yaml.Node
		switch err := loader.Load(&doc); {
		case errors.Is(err, io.EOF):
			return settings, nil
		case err != nil:
			return nil, notYAML(path, err)
		}
		if settings, err = addSettings(settings, doc.Content[0]); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
}

func notYAML(path string, err error) error {
	if at, ok := errors.AsType[*yaml.LoadError](err); ok {
		return fmt.Errorf("%s: line %d: not YAML: %s", path, at.Mark.Line, at.Message)
	}
	return fmt.Errorf("%s: not YAML: %w", path, err)
}

// addSettings appends the settings of one document.
func addSettings(settings []setting, n *yaml.Node) ([]setting, error) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return settings, nil // nothing but comments
	}
	if n.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: settings are written `name: value`", n.Line)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		s, err := newSetting(n.Content[i], n.Content[i+1])
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", s.line, s.name, err)
		}
		same := func(other setting) bool { return other.name == s.name }
		if slices.ContainsFunc(settings, same) {
			return nil, fmt.Errorf("line %d: %s: it is set twice", s.line, s.name)
		}
		settings = append(settings, s)
	}
	return settings, nil
}

// ReadAtMost reads a file that may have so many bytes.
func ReadAtMost(path string, most int64) (text []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	text, err = io.ReadAll(io.LimitReader(file, most+1))
	if int64(len(text)) > most {
		err = fmt.Errorf("%s is larger than %s: this is no settings file", path, units.FormatSize(most))
	}
	return text, errors.Join(err, file.Close())
}

func newSetting(key, value *yaml.Node) (setting, error) {
	s := setting{line: key.Line, name: key.Value}
	nodes := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode {
		nodes = value.Content
	}
	for _, n := range nodes {
		if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
			return s, errors.New("it needs a value, or a list of values")
		}
		// The text as it was written: 5m, 1_000 and 0777 mean what the flag
		// takes them for, not what YAML does.
		s.values = append(s.values, n.Value)
	}
	return s, nil
}

// suggest names the setting that is spelled nearly like name, or else all.
func suggest(name string, flags *pflag.FlagSet) string {
	var all []string
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != ConfigFlag && f.Name != "help" {
			all = append(all, f.Name)
		}
	})
	if near := nearest.To(strings.ReplaceAll(name, "_", "-"), all); near != "" {
		return ": did you mean " + near + "?"
	}
	return "; there are " + strings.Join(all, ", ")
}
