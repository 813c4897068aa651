package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-counter/weir/cmd/weir/internal/settings"
	"github.com/weir-counter/weir/internal/nearest"
)

// warnUnknown tells of variables that look like Weir's and are not: a misspelt
// one would leave a setting at its default in silence. A variable may stand for
// a flag of any command, for a shell has one environment.
func warnUnknown(w *World, root *cobra.Command) {
	known := variables(nil, root)
	flags := make([]string, len(known))
	for i, name := range known {
		flags[i] = strings.TrimPrefix(name, settings.VariablePrefix)
	}
	for _, entry := range w.Environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, settings.VariablePrefix) || value == "" || slices.Contains(known, name) {
			continue
		}
		hint := "no flag has it"
		if near := nearest.To(strings.TrimPrefix(name, settings.VariablePrefix), flags); near != "" {
			hint = "did you mean " + settings.VariablePrefix + near + "?"
		}
		fmt.Fprintf(w.Stderr, "weir: warning: the variable %s is not known: %s\n", name, hint)
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
	return fmt.Errorf("unknown command %q for %q%s", word, cmd.CommandPath(), nearest.DidYouMean(word, names))
}

// FlagError says more of a flag that is wrong.
func FlagError(cmd *cobra.Command, err error) error {
	var wrong *pflag.InvalidValueError
	if errors.As(err, &wrong) && wrong.GetFlag().Value.Type() == "bool" {
		return fmt.Errorf("--%s: %w", wrong.GetFlag().Name, settings.Reason(err))
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
	of := map[string]string{} // the command below, of flags that cmd does not have
	for _, below := range cmd.Commands() {
		for _, flag := range flagsOf(below) {
			if !below.Hidden && !slices.Contains(known, flag) {
				known = append(known, flag)
				of[flag] = below.CommandPath() + " "
			}
		}
	}
	meant := nearest.To("--"+unknown.GetSpecifiedName(), known)
	if meant == "" {
		return err
	}
	return fmt.Errorf("%w, did you mean %s%s?", err, of[meant], meant)
}

// flagsOf are those of a command, with their dashes.
func flagsOf(cmd *cobra.Command) (flags []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags = append(flags, "--"+f.Name)
		}
	})
	return flags
}

// variables appends those of the flags of a command and of all below it.
func variables(known []string, cmd *cobra.Command) []string {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, settings.Variable(f.Name)) })
	for _, below := range cmd.Commands() {
		known = variables(known, below)
	}
	return known
}
