// Package settings finds the value of each flag: the command line's, or else that of the environment, or else the
// settings file's.
//
// Invariants: all values go through the flag's own parser, so that one is right or wrong wherever it
// stands; a wrong one is named with the place that it came from; a name that is no flag's is refused,
// with the one that may be meant.
package settings

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/pflag"
)

// ConfigFlag names the flag that names the settings file.
const ConfigFlag = "config"

// VariablePrefix begins the names of the variables that stand for flags.
const VariablePrefix = "WEIR_"

// Sources remembers where the value of each flag came from, by flag name. A
// flag that is not in it has its default.
type Sources map[string]string

// Resolve gives the flags that the command line left open the values that the
// environment, or else the settings file has for them. All go through the
// flag's own parser, so that one value is right or wrong wherever it stands.
func Resolve(flags *pflag.FlagSet, env func(string) (string, bool)) (Sources, error) {
	from := Sources{}
	var err error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			from[f.Name] = "--" + f.Name
			return
		}
		name := Variable(f.Name)
		value, ok := env(name)
		if !ok || value == "" || err != nil || f.Name == "help" {
			return
		}
		if setErr := flags.Set(f.Name, value); setErr != nil {
			err = fmt.Errorf("%s: %w", name, Reason(setErr))
			return
		}
		from[f.Name] = name
	})
	if err != nil {
		return nil, err
	}
	config := flags.Lookup(ConfigFlag)
	if config == nil || config.Value.String() == "" {
		return from, nil
	}
	return from, resolveFile(flags, config.Value.String(), from)
}

// resolveFile takes the values of the settings file.
func resolveFile(flags *pflag.FlagSet, path string, from Sources) error {
	settings, err := readSettings(path)
	if err != nil {
		return err
	}
	for _, s := range settings {
		where := fmt.Sprintf("%s: line %d: %s", path, s.line, s.name)
		f := flags.Lookup(s.name)
		if f == nil || s.name == ConfigFlag || s.name == "help" {
			return fmt.Errorf("%s: there is no such setting%s", where, suggest(s.name, flags))
		}
		if from[s.name] != "" {
			continue
		}
		for _, value := range s.values {
			if err := flags.Set(s.name, value); err != nil {
				return fmt.Errorf("%s: %w", where, Reason(err))
			}
		}
		from[s.name] = where
	}
	return nil
}

// Variable names the environment's variable of a flag.
func Variable(flag string) string {
	return VariablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Reason leaves out that a value was wrong "for a flag": it was not a flag.
func Reason(err error) error {
	var number *strconv.NumError
	if errors.As(err, &number) && number.Func == "ParseBool" {
		return fmt.Errorf("%q: it must be true or false", number.Num)
	}
	var wrong *pflag.InvalidValueError
	if errors.As(err, &wrong) {
		return wrong.Unwrap()
	}
	return err
}

// flagOf names the flags that are not simply spelled as the field they set.
var flagOf = map[string]string{
	"Addr":          "http",
	"AllowHosts":    "allow-host",
	"AllowOrigins":  "allow-origin",
	"Cert":          "tls-cert",
	"ClientCA":      "tls-client-ca",
	"Keys":          "key",
	"Windows":       "window",
	"CountKeys":     "count-key",
	"Dir":           "data",
	"MaxBytes":      "max-disk",
	"SnapshotBytes": "snapshot-every",

	"History.On":       "history",
	"History.URL":      "history-url",
	"History.Keep":     "history-keep",
	"History.Slot":     "history-slot",
	"History.MaxBytes": "history-disk",
	"History.Every":    "history-every",

	"RESP.Addr":          "resp",
	"RESP.CounterMemory": "resp-counters",
	"RESP.IdleTimeout":   "resp-idle-timeout",
	"RLS.Addr":           "rls",
	"RLS.Limits":         "rls-config",
	"RLS.Headers":        "rls-headers",
	"RLS.XDS.Addr":       "rls-xds",
	"RLS.Algorithm":      "rls-algorithm",
	"Regions.Region":     "region",
	"Regions.Name":       "region",
	"Regions.Links":      "link",
	"Regions.Every":      "region-every",
	"Regions.Memory":     "region-memory",
	"Regions.LogBytes":   "region-log",
	"StatsD.Addr":        "statsd",
	"StatsD.Identity":    "statsd-identity",
	"StatsD.Key":         "statsd-key",

	"Warnings.URL":        "warn-url",
	"Warnings.SecretFile": "warn-secret-file",
}

// Blame says by which setting a field of a configuration got its wrong value. A field may
// have its part before it: HTTP.Addr.
func (from Sources) Blame(field string, err error) error {
	flag, ok := flagOf[field]
	if !ok {
		field = field[strings.LastIndexByte(field, '.')+1:]
		flag, ok = flagOf[field]
	}
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
