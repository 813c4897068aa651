package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-counter/weir/internal/nearest"
)

// variablePrefix begins the names of the variables that stand for flags.
const variablePrefix = "WEIR_"

// warnUnknown tells of variables that look like Weir's and are not: a misspelt
// one would leave a setting at its default in silence. A variable may stand for
// a flag of any command, for a shell has one environment.
func warnUnknown(w *world, root *cobra.Command) {
	known := variables(nil, root)
	flags := make([]string, len(known))
	for i, name := range known {
		flags[i] = strings.TrimPrefix(name, variablePrefix)
	}
	for _, entry := range w.environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, variablePrefix) || value == "" || slices.Contains(known, name) {
			continue
		}
		hint := "no flag has it"
		if near := nearest.To(strings.TrimPrefix(name, variablePrefix), flags); near != "" {
			hint = "did you mean " + variablePrefix + near + "?"
		}
		fmt.Fprintf(w.stderr, "weir: warning: the variable %s is not known: %s\n", name, hint)
	}
}

// variables appends those of the flags of a command and of all below it.
func variables(known []string, cmd *cobra.Command) []string {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, variable(f.Name)) })
	for _, below := range cmd.Commands() {
		known = variables(known, below)
	}
	return known
}
