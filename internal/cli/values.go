package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/weir-counter/weir/internal/units"
)

// Value is a flag of any type that can be read from text.
type Value[T any] struct {
	To    *T
	read  func(string) (T, error)
	write func(T) string
	kind  string // for the help
}

func (v Value[T]) String() string {
	if v.To == nil { // pflag asks a zero value, to know whether to print a default
		return ""
	}
	return v.write(*v.To)
}

func (v Value[T]) Type() string { return v.kind }

func (v Value[T]) Set(s string) (err error) {
	x, err := v.read(s)
	if err == nil {
		*v.To = x
	}
	return err
}

func NewValue[T any](to *T, kind string, read func(string) (T, error), write func(T) string) Value[T] {
	return Value[T]{to, read, write, kind}
}

// WholeNumber is what the N of a command must be.
const WholeNumber = "it must be a whole number, 1 or more"

// positive refuses zero: in a configuration it would stand for the default, and who writes 0 means something else.
func positive[T ~int | ~int64](read func(string) (T, error)) func(string) (T, error) {
	return func(s string) (T, error) {
		x, err := read(s)
		if err == nil && x <= 0 {
			return 0, fmt.Errorf("%q: it must be more than 0", s)
		}
		return x, err
	}
}

// Duration is a flag of a duration of more than 0, such as 5m.
func Duration(to *time.Duration) Value[time.Duration] {
	return Value[time.Duration]{to, positive(units.ParseDuration), units.FormatDuration, "duration"}
}

// Durations is Duration that may be given several times.
func Durations(to *[]time.Duration) Value[[]time.Duration] {
	read := func(s string) ([]time.Duration, error) {
		d, err := positive(units.ParseDuration)(s)
		return append(*to, d), err
	}
	write := func(all []time.Duration) string {
		texts := make([]string, len(all))
		for i, d := range all {
			texts[i] = units.FormatDuration(d)
		}
		return strings.Join(texts, ",")
	}
	return Value[[]time.Duration]{to, read, write, "duration"}
}

// Delay is a duration that may be 0.
func Delay(to *time.Duration) Value[time.Duration] {
	return Value[time.Duration]{to, units.ParseDuration, units.FormatDuration, "duration"}
}

// Size is a flag of a number of bytes of more than 0, such as 64MiB.
func Size(to *int64) Value[int64] {
	return Value[int64]{to, positive(units.ParseSize), units.FormatSize, "size"}
}

// Number is a flag of a whole number from 1.
func Number(to *int) Value[int] {
	read := func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil {
			return 0, fmt.Errorf("%q is not a whole number", s)
		}
		return n, nil
	}
	return Value[int]{to, positive(read), strconv.Itoa, "number"}
}

// NumberOrAll takes all, which is 0, or a number from 1.
func NumberOrAll(to *int) Value[int] {
	count := Number(to)
	return Value[int]{To: to, kind: "all|number", read: func(s string) (int, error) {
		if strings.EqualFold(s, "all") {
			return 0, nil
		}
		return count.read(s)
	}, write: func(n int) string {
		if n == 0 {
			return "all"
		}
		return count.write(n)
	}}
}

// Moment is a flag of a time: RFC 3339, or Unix seconds.
func Moment(to *time.Time) Value[time.Time] {
	return Value[time.Time]{to, units.ParseTime, FormatMoment, "time"}
}

// MomentOrAgo is Moment that also takes a duration before now: -365d.
func MomentOrAgo(to *time.Time) Value[time.Time] {
	return Value[time.Time]{to, func(s string) (time.Time, error) {
		ago, ok := strings.CutPrefix(s, "-")
		if !ok {
			return units.ParseTime(s)
		}
		d, err := units.ParseDuration(ago)
		return time.Now().Add(-d).Truncate(time.Second), err
	}, FormatMoment, "time"}
}

// FormatMoment writes a time as RFC 3339 in whole seconds; the zero time as nothing.
func FormatMoment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// Choice is a flag that takes one of a few words.
func Choice[T ~string](cmd *cobra.Command, to *T, flag, help string, words ...T) {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	v := Value[T]{To: to, kind: strings.Join(texts, "|"), write: func(w T) string { return string(w) }}
	v.read = func(s string) (T, error) {
		if w := T(strings.ToLower(s)); slices.Contains(words, w) {
			return w, nil
		}
		return "", fmt.Errorf("%q: it must be %s", s, strings.Join(texts, " or "))
	}
	cmd.Flags().Var(v, flag, help)
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(texts, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // a flag defined twice
	}
}

// Args takes the arguments that the names of a usage line stand for. All that are not in brackets must be given, and a last
// one with "..." may be repeated. Its errors name them.
func Args(names ...string) cobra.PositionalArgs {
	least, most := 0, len(names)
	for _, name := range names {
		if !strings.HasPrefix(name, "[") {
			least++
		}
		if strings.Contains(name, "...") {
			most = -1
		}
	}
	return func(cmd *cobra.Command, given []string) error {
		switch {
		case len(given) > 0 && most == 0 && cmd.HasAvailableSubCommands():
			return unknownCommand(cmd, given[0])
		case len(given) < least:
			return fmt.Errorf("%s needs %s: write %s", cmd.CommandPath(), strings.TrimSuffix(names[len(given)], "..."), cmd.UseLine())
		case most >= 0 && len(given) > most:
			return fmt.Errorf("%s does not take %q: write %s", cmd.CommandPath(), given[most], cmd.UseLine())
		}
		return nil
	}
}

// NoArgs is for a command that has commands below and does nothing itself.
func NoArgs(cmd *cobra.Command, given []string) error {
	if len(given) > 0 {
		return unknownCommand(cmd, given[0])
	}
	return nil
}

// warnUnknown tells of variables that look like Weir's and are not: a misspelt one would leave a setting at its default
// in silence. A variable may stand for a flag of any command, for a shell has one environment.
func warnUnknown(w *World, root *cobra.Command) {
	known := variables(nil, root)
	flags := make([]string, len(known))
	for i, name := range known {
		flags[i] = strings.TrimPrefix(name, VariablePrefix)
	}
	for _, entry := range w.Environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, VariablePrefix) || value == "" || slices.Contains(known, name) {
			continue
		}
		hint := "no flag has it"
		if near := units.Nearest(strings.TrimPrefix(name, VariablePrefix), flags); near != "" {
			hint = "did you mean " + VariablePrefix + near + "?"
		}
		fmt.Fprintf(w.Stderr, "weir: warning: unknown variable %s: %s\n", name, hint)
	}
}

// unknownCommand is the error of a word that is no command of cmd.
func unknownCommand(cmd *cobra.Command, word string) error {
	var names []string
	for _, below := range cmd.Commands() {
		if !below.Hidden {
			names = append(names, below.Name())
		}
	}
	return fmt.Errorf("unknown command %q for %q%s", word, cmd.CommandPath(), units.DidYouMean(word, names))
}

// FlagError says more of a flag that is wrong.
func FlagError(cmd *cobra.Command, err error) error {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok && wrong.GetFlag().Value.Type() == "bool" {
		return fmt.Errorf("--%s: %w", wrong.GetFlag().Name, SettingReason(err))
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	if letters := unknown.GetSpecifiedShortnames(); letters != "" {
		if letters[0] < '0' || letters[0] > '9' {
			return err
		}
		if strings.Contains(cmd.Use, "[N]") {
			return fmt.Errorf("wrong N -%s: %s", letters, WholeNumber)
		}
		return fmt.Errorf("-%s looks like a flag: a KEY that begins with - stands after --", letters)
	}
	if name := unknown.GetSpecifiedName(); len(name) == 1 && cmd.Flags().ShorthandLookup(name) != nil {
		return fmt.Errorf("%w, did you mean -%s?", err, name)
	}
	known := flagsOf(cmd)
	owner := map[string]string{} // the command below, of flags that cmd does not have
	for _, below := range cmd.Commands() {
		for _, flag := range flagsOf(below) {
			if !below.Hidden && !slices.Contains(known, flag) {
				known = append(known, flag)
				owner[flag] = below.CommandPath() + " "
			}
		}
	}
	meant := units.Nearest("--"+unknown.GetSpecifiedName(), known)
	if meant == "" {
		return err
	}
	return fmt.Errorf("%w, did you mean %s%s?", err, owner[meant], meant)
}

// flagsOf returns the flags of a command, with their dashes.
func flagsOf(cmd *cobra.Command) (flags []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags = append(flags, "--"+f.Name)
		}
	})
	return flags
}

// variables appends the variables of the flags of a command and of all below it.
func variables(known []string, cmd *cobra.Command) []string {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, SettingVariable(f.Name)) })
	for _, below := range cmd.Commands() {
		known = variables(known, below)
	}
	return known
}

// CreateOutput makes the file that a flag names, or empties the one that is there, unless it is one of those
// that are read: a slip of the shell's history must not cost a log.
func CreateOutput(flag, path string, stdin io.Reader, read []string) (*os.File, error) {
	if path == "-" {
		return nil, Usage(fmt.Errorf("%s -: standard output has the report already: name a file", flag))
	}
	to, err := os.Stat(path)
	for _, name := range read {
		if from, missing := statRead(name, stdin); err == nil && missing == nil && os.SameFile(to, from) {
			return nil, Usage(fmt.Errorf("%s %s is a file that is read or written: name another one", flag, path))
		}
	}
	return os.Create(path)
}

// statRead is os.Stat, where - is the input, which may be a file too.
func statRead(name string, stdin io.Reader) (fs.FileInfo, error) {
	if file, ok := stdin.(*os.File); ok && name == "-" {
		return file.Stat()
	}
	return os.Stat(name)
}

// Complete fills in what the commands below root do not say: Args by the words of Use, and no files where Use has no FILE.
func Complete(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		Complete(cmd)
		if cmd.Args == nil {
			cmd.Args = Args(strings.Fields(cmd.Use)[1:]...)
		}
		if cmd.ValidArgsFunction == nil && !strings.Contains(cmd.Use, "FILE") {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
	}
}
