package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/cmd/weir/internal/cli"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/journal"
)

func newRestore(w *cli.World) *cobra.Command {
	dir, server, mode := defaultData, "", "merge"
	var l cli.Login
	cmd := &cobra.Command{
		Use:   "restore FILE|-",
		Short: "Make a data directory of a backup, or restore it into a running server",
		Long: `Make a data directory of a backup: a file of 'weir backup', or with - the input.

The directory must be empty, or not be there yet. The backup is checked as a
whole before anything of it counts; one that is damaged or cut short is refused,
and leaves nothing behind.

With --server it is restored into a server that runs, alone or in a cluster:
--mode merge adds its hits to those that are counted, --mode replace makes the
counts those of the backup. A merge that was cut off may be run again: the same
backup counts once.`,
		Example: "  weir restore weir.backup --data /var/lib/weir\n  weir restore weir.backup --server 10.0.0.1:8080 --mode merge",
		Args:    cli.Args("FILE|-"),
		RunE: cli.Work(w, func(cmd *cobra.Command, args []string, given cli.Sources) error {
			into, err := intoServer(given)
			if err != nil {
				return err
			}
			from := w.Stdin
			if args[0] != "-" {
				file, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer file.Close()
				from = io.Reader(file)
			}
			if into {
				return restoreInto(cmd.Context(), w, &l, from, args[0], server, client.RestoreMode(mode))
			}
			info, err := journal.Restore(cmd.Context(), from, dir)
			if err != nil {
				return fmt.Errorf("restore %s: %w", args[0], err)
			}
			fmt.Fprintf(w.Stdout, "%s: restored a backup of %s, taken at %s, with a retention of %s\n",
				dir, units.FormatSize(info.Bytes), cli.FormatMoment(info.Taken), cli.WindowText(info.RetentionS))
			return nil
		}),
	}
	cmd.Flags().StringVar(&dir, "data", dir, "data directory to make")
	cmd.Flags().StringVar(&server, "server", "", "address of a running server to restore into, in place of --data")
	l.Define(cmd)
	cli.Choice(cmd, &mode, "mode", "with --server: add the backup to the counts, or make them those of the backup", "merge", "replace")
	return cmd
}

// intoServer tells whether a backup is for a server that runs, and not for a directory. The command
// line goes before the environment, which may name both: then it does not say which is meant.
func intoServer(given cli.Sources) (bool, error) {
	server, data := given["server"], given["data"]
	switch {
	case server == "" || data == "":
		return server != "", nil
	case server == "--server" && data != "--data":
		return true, nil
	case data == "--data" && server != "--server":
		return false, nil
	}
	return false, cli.Usage(errors.New(server + " and " + data + ": choose one: a server that runs, or a directory to make"))
}

// restoreInto restores a backup into a server that runs.
func restoreInto(ctx context.Context, w *cli.World, l *cli.Login, from io.Reader, name, server string, mode client.RestoreMode) error {
	o, err := l.Options(client.Options{})
	if err != nil {
		return err
	}
	c, err := client.New(server, o)
	if err != nil {
		return cli.Usage(fmt.Errorf("--server: %w", err))
	}
	done, err := c.Restore(ctx, from, mode)
	switch {
	case err != nil:
		return fmt.Errorf("restore %s: %w", name, err)
	case done.Again:
		fmt.Fprintf(w.Stdout, "%s: this backup, taken at %s, was merged before: nothing was counted again\n", server, cli.FormatMoment(done.TakenAt()))
	case mode == client.Replace:
		fmt.Fprintf(w.Stdout, "%s: the counts are those of the backup taken at %s, %d keys\n", server, cli.FormatMoment(done.TakenAt()), done.Keys)
	default:
		fmt.Fprintf(w.Stdout, "%s: merged the backup taken at %s, %d keys\n", server, cli.FormatMoment(done.TakenAt()), done.Keys)
	}
	return nil
}
