package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/weir-counter/weir/internal/units"
)

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
