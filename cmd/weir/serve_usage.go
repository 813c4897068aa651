package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// serveHeadings are the headings of serve's flags in its help, each by the first flag below it.
var serveHeadings = map[string]string{
	"http":           "Addresses for clients",
	"tokens":         "Who may use it",
	"data":           "What it keeps",
	"policy":         "Limits",
	"cluster":        "Nodes that count together",
	"region":         "Regions",
	"history":        "History",
	"config":         "Settings, log, metrics",
	"max-body-bytes": "Bounds",
	"drain-delay":    "Stopping",
	"help":           "Help",
}

// serveUsage prints the usage of serve, whose flags are too many for one list.
func serveUsage(cmd *cobra.Command) error {
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "Usage:\n  %s\n\nExamples:\n%s\n", cmd.UseLine(), cmd.Example)
	var below *pflag.FlagSet
	end := func() {
		if below != nil {
			fmt.Fprint(out, below.FlagUsages())
		}
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if heading := serveHeadings[f.Name]; heading != "" {
			end()
			fmt.Fprintf(out, "\n%s:\n", heading)
			below = pflag.NewFlagSet(heading, pflag.ContinueOnError)
			below.SortFlags = false
		}
		below.AddFlag(f)
	})
	end()
	return nil
}
