package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/pflag"
	"github.com/weir-counter/weir/internal/settings"
	"github.com/weir-counter/weir/internal/units"
	"go.yaml.in/yaml/v4"
)

// This file finds the value of each flag: the command line's, or else the environment's, or else the settings file's.
//
// Invariants: all values go through the flag's own parser, so that a value is right or wrong wherever it stands. An
// error names the place that the value came from. An unknown name is refused, with a suggestion.

// ConfigFlag names the flag that names the settings file.
const ConfigFlag = "config"

// isHelp reports whether a flag only prints help: it is no setting.
func isHelp(flag string) bool { return flag == "help" || flag == "help-all" }

// VariablePrefix begins the names of the variables that stand for flags.
const VariablePrefix = "WEIR_"

// SettingSources remembers where the value of each flag came from, by the flag's name and by the field that it sets
// (FieldOf). A flag that is not in it has its default.
type SettingSources map[string]string

// ResolveSettings gives the flags that the command line left open the values that the environment, or else the settings
// file has for them. All go through the flag's own parser, so that one value is right or wrong wherever it stands.
func ResolveSettings(flags *pflag.FlagSet, env func(string) (string, bool)) (SettingSources, error) {
	from := SettingSources{}
	var err error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			from[f.Name] = "--" + f.Name
			return
		}
		name := SettingVariable(f.Name)
		value, ok := env(name)
		if !ok || value == "" || err != nil || isHelp(f.Name) {
			return
		}
		if setErr := flags.Set(f.Name, value); setErr != nil {
			err = fmt.Errorf("%s: %w", name, SettingReason(setErr))
			return
		}
		from[f.Name] = name
	})
	if err != nil {
		return nil, err
	}
	if config := flags.Lookup(ConfigFlag); config != nil && config.Value.String() != "" {
		if err := resolveFile(flags, config.Value.String(), from); err != nil {
			return from, err
		}
	}
	flags.VisitAll(func(f *pflag.Flag) {
		for _, field := range f.Annotations[FieldOf] {
			if where := from[f.Name]; where != "" {
				from[field] = where
			}
		}
	})
	return from, nil
}

// resolveFile takes the values of the settings file.
func resolveFile(flags *pflag.FlagSet, path string, from SettingSources) error {
	var known []string
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != ConfigFlag && !isHelp(f.Name) {
			known = append(known, f.Name)
		}
	})
	settings, faults, err := readSettings(path, known)
	if err := cmp.Or(err, faults); err != nil {
		return err
	}
	byLine := func(a, b string) int { return cmp.Compare(settings[a].line, settings[b].line) }
	for _, name := range slices.SortedFunc(maps.Keys(settings), byLine) {
		s := settings[name]
		where := fmt.Sprintf("%s:%d: %s", path, s.line, name)
		if from[name] != "" {
			continue
		}
		for _, value := range s.values {
			if err := flags.Set(name, value); err != nil {
				return fmt.Errorf("%s: %w", where, SettingReason(err))
			}
		}
		from[name] = where
	}
	return nil
}

// Setting returns the values that a settings file has for a flag now.
func Setting(path, flag string) ([]string, error) {
	settings, _, err := readSettings(path, []string{flag}) // the other settings are faults then
	return settings[flag].values, err
}

// A setting is the value of one `name: value` of the settings file. A list has several values.
type setting struct {
	line   int
	values []string
}

// readSettings reads a YAML file of flags without their dashes.
func readSettings(path string, known []string) (named map[string]setting, faults error, err error) {
	text, err := ReadAtMost(path, MaxSettingsBytes)
	if err != nil {
		return nil, nil, fmt.Errorf("settings file: %w", err)
	}
	named = map[string]setting{}
	r := settings.Reader{Second: "write all settings into the first one"}
	r.Open(path)
	if root := r.Document(text); root != nil && !settings.IsNull(root) {
		for name, value := range r.Fields(root, "", "retention: 7d", known) {
			s, nodes := setting{line: value.Line}, []*yaml.Node{value}
			if value.Kind == yaml.SequenceNode {
				nodes = value.Content
			}
			for _, n := range nodes {
				if one, ok := r.Text(n, name, ""); ok { // 5m, 1_000 and 0777 mean what the flag takes them for, not what YAML does
					s.values = append(s.values, one)
				}
			}
			named[name] = s
		}
	}
	if all := r.Faults(); all != nil {
		faults = all
	}
	return named, faults, nil
}

// SettingVariable names the environment's variable of a flag.
func SettingVariable(flag string) string {
	return VariablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// SettingReason leaves out that a value was wrong "for a flag": it was not a flag.
func SettingReason(err error) error {
	if number, ok := errors.AsType[*strconv.NumError](err); ok && number.Func == "ParseBool" {
		return fmt.Errorf("%q: it must be true or false", number.Num)
	}
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return wrong.Unwrap()
	}
	return err
}

// FieldOf is the annotation of a flag with the path of the field that it sets, Journal.MaxBytes, if the field's name
// does not say it: Blame looks for it.
const FieldOf = "field"

// flagOf names the flags of clients' commands that are not simply spelled as the field they set.
var flagOf = map[string]string{"Keys": "key"}

// Blame says by which setting a field of a configuration got its wrong value. A field may
// have its part before its name: HTTP.Addr.
func (from SettingSources) Blame(field string, err error) error {
	if where := from[field]; where != "" {
		return fmt.Errorf("%s: %w", where, err)
	}
	field = field[strings.LastIndexByte(field, '.')+1:]
	flag, ok := flagOf[field]
	if !ok {
		flag = kebab(field)
	}
	if where := from[flag]; where != "" {
		return fmt.Errorf("%s: %w", where, err)
	}
	return err
}

// kebab writes MaxAhead as max-ahead.
func kebab(field string) string {
	var b strings.Builder
	for i, r := range field {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// MaxSettingsBytes bounds the settings file: far more than there are settings.
const MaxSettingsBytes = 1 << 20

// ReadAtMost reads a file of at most most bytes.
func ReadAtMost(path string, most int64) (text []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	text, err = io.ReadAll(io.LimitReader(file, most+1))
	if int64(len(text)) > most {
		err = fmt.Errorf("%s is larger than %s: not a settings file", path, units.FormatSize(most))
	}
	return text, errors.Join(err, file.Close())
}
