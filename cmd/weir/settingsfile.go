package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/spf13/pflag"

	"github.com/weir-counter/weir/internal/nearest"
	"github.com/weir-counter/weir/internal/units"
)

// maxSettings bounds the settings file: far more than there are settings.
const maxSettings = 1 << 20

// A setting is one `name: value` of the settings file. A list has several
// values.
type setting struct {
	name   string
	line   int
	values []string
}

// readSettings reads a YAML file of flags without their dashes.
func readSettings(path string) ([]setting, error) {
	text, err := readAtMost(path, maxSettings)
	if err != nil {
		return nil, fmt.Errorf("settings file: %w", err)
	}
	tree, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: not YAML: %w", path, err)
	}
	var settings []setting
	for _, doc := range tree.Docs {
		if doc.Body == nil {
			continue
		}
		pairs, ok := mapping(doc.Body)
		if !ok {
			return nil, fmt.Errorf("%s: line %d: settings are written `name: value`", path, doc.Body.GetToken().Position.Line)
		}
		for _, pair := range pairs {
			s, err := newSetting(pair)
			if err != nil {
				return nil, fmt.Errorf("%s: line %d: %s: %w", path, s.line, s.name, err)
			}
			same := func(other setting) bool { return other.name == s.name }
			if slices.ContainsFunc(settings, same) {
				return nil, fmt.Errorf("%s: line %d: %s: it is set twice", path, s.line, s.name)
			}
			settings = append(settings, s)
		}
	}
	return settings, nil
}

func readAtMost(path string, most int64) (text []byte, err error) {
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

func mapping(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	case *ast.CommentGroupNode, *ast.NullNode:
		return nil, true
	}
	return nil, false
}

func newSetting(pair *ast.MappingValueNode) (setting, error) {
	s := setting{line: pair.Key.GetToken().Position.Line, name: pair.Key.GetToken().Value}
	nodes := []ast.Node{pair.Value}
	if list, ok := pair.Value.(*ast.SequenceNode); ok {
		nodes = list.Values
	}
	for _, n := range nodes {
		scalar, ok := n.(ast.ScalarNode)
		if _, null := n.(*ast.NullNode); !ok || null {
			return s, fmt.Errorf("it needs a value, or a list of values")
		}
		// The text as it was written: 5m, 1_000 and 0777 mean what the flag
		// takes them for, not what YAML does.
		s.values = append(s.values, scalar.GetToken().Value)
	}
	return s, nil
}

// suggest names the setting that is spelled nearly like name, or else all.
func suggest(name string, flags *pflag.FlagSet) string {
	var all []string
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != configFlag && f.Name != "help" {
			all = append(all, f.Name)
		}
	})
	if near := nearest.To(strings.ReplaceAll(name, "_", "-"), all); near != "" {
		return ": did you mean " + near + "?"
	}
	return "; there are " + strings.Join(all, ", ")
}
