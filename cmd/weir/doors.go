package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/weir-counter/weir/cmd/weir/internal/cli"
)

// checkDoors refuses settings of a door that is not opened: they would do nothing, and who gives them relies on them.
func checkDoors(flags *pflag.FlagSet, from cli.Sources) (err error) {
	for _, door := range []string{"resp", "rls", "statsd"} {
		if flags.Lookup(door).Value.String() != "" {
			continue
		}
		flags.VisitAll(func(f *pflag.Flag) {
			if where := from[f.Name]; where != "" && err == nil && strings.HasPrefix(f.Name, door+"-") {
				err = cli.Usage(fmt.Errorf("%s: it does nothing without --%s: give --%s ADDRESS too, or leave it out", where, door, door))
			}
		})
	}
	return err
}
