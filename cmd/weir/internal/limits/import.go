package limits

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/cmd/weir/internal/cli"
)

func newImport(w *cli.World) *cobra.Command {
	var files rlsFiles
	cmd := &cobra.Command{
		Use:   "import FILE|DIR",
		Short: "Make a policy file of the limits of envoyproxy/ratelimit",
		Long: `Read limits as envoyproxy/ratelimit has them, a YAML file or a folder of files, print
the policy file that says the same, and say what changes with it. Or say all that is
wrong: one line for each fault, FILE:LINE: FIELD: what is wrong.

A server needs no import: 'weir serve --rls ADDRESS --rls-config FILE|DIR' reads these
files as they are. With policies instead (--rls ADDRESS --policy FILE) the limits hold
at the other doors too, for the keys DOMAIN:KEY=VALUE:KEY=VALUE.

Exit codes: 0 the policies are printed, 1 the limits are wrong or can't be read, 2 the
command line is wrong.`,
		Example: "  weir limits import config/ > policies.yaml\n  weir limits check policies.yaml edge:remote_address=10.0.0.1",
		Args:    cli.Args("FILE|DIR"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return []cobra.Completion{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: cli.Work(w, func(_ *cobra.Command, args []string, _ cli.Sources) error {
			files.path = args[0]
			c, err := files.load(w)
			if err != nil {
				return err
			}
			file, notes, err := c.Policies()
			if err != nil {
				return err
			}
			for _, n := range notes {
				fmt.Fprintln(w.Stderr, "changed: "+n)
			}
			_, err = w.Stdout.Write(file)
			return err
		}),
	}
	files.defineOptions(cmd)
	return cmd
}
