package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Args takes as many arguments as there are names: all that are not in brackets
// must be given, and a last one that ends in "..." may be repeated. Its errors
// name them, in place of counting them.
func Args(names ...string) cobra.PositionalArgs {
	least, most := 0, len(names)
	for _, name := range names {
		if !strings.HasPrefix(name, "[") {
			least++
		}
		if strings.HasSuffix(name, "...") {
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
