package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/journal"
)

func newRestore(w *world) *cobra.Command {
	dir := defaultData
	cmd := &cobra.Command{
		Use:   "restore FILE|-",
		Short: "Make a data directory of a backup",
		Long: `Make a data directory of a backup: a file of 'weir backup', or with - the input.

The directory must be empty, or not be there yet. The backup is checked as a
whole before anything of it counts; one that is damaged or cut short is refused,
and leaves nothing behind.`,
		Example: "  weir restore weir.backup --data /var/lib/weir\n  weir serve --data /var/lib/weir",
		Args:    cobra.ExactArgs(1),
		RunE: work(w, func(cmd *cobra.Command, args []string, _ sources) error {
			from := w.stdin
			if args[0] != "-" {
				file, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer file.Close()
				from = io.Reader(file)
			}
			info, err := journal.Restore(cmd.Context(), from, dir)
			if err != nil {
				return fmt.Errorf("restore %s: %w", args[0], err)
			}
			fmt.Fprintf(w.stdout, "%s: restored a backup of %s, taken at %s, with a retention of %s\n",
				dir, units.FormatSize(info.Bytes), formatMoment(info.Taken), windowText(info.RetentionS))
			return nil
		}),
	}
	cmd.Flags().StringVar(&dir, "data", dir, "data directory to make")
	return cmd
}
