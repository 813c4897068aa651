package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/cmd/weir/internal/cli"
)

func newHit(w *cli.World) *cobra.Command {
	var r cli.Remote
	var at time.Time
	var durable bool
	cmd := &cobra.Command{
		Use:   "hit KEY [N]",
		Short: "Count a hit of a key, or N of them",
		Long: `Count a hit of a key, or N of them, on a server.

A hit whose answer is lost on the way is sent again, and counts once all the
same. With --durable the command succeeds once the hit is on the server's disk;
without it a crash of the server may lose at most one flush interval.`,
		Example:           "  weir hit url:/home\n  weir hit jobs:done 25 --at 2026-01-31T12:00:00Z",
		Args:              cli.Args("KEY", "[N]"),
		ValidArgsFunction: cli.CompleteKeys(w, &r, 1),
		RunE: cli.Work(w, func(cmd *cobra.Command, args []string, from cli.Sources) error {
			hit := client.Hit{Key: args[0], N: 1, At: at}
			if len(args) == 2 {
				n, err := strconv.ParseUint(args[1], 10, 64)
				if err != nil || n == 0 {
					return cli.Usage(fmt.Errorf("wrong N %q: %s", args[1], cli.WholeNumber))
				}
				hit.N = n
			}
			c, err := r.Sender(from, durable)
			if err != nil {
				return err
			}
			receipt, err := c.Send(cmd.Context(), []client.Hit{hit})
			if err != nil {
				return err
			}
			return r.Print(w.Stdout, receipt, func(t *cli.Table) {
				text := fmt.Sprintf("%d counted", receipt.Counted)
				if receipt.Durable {
					text += ", on disk"
				}
				if receipt.Late > 0 {
					text += ", late: the key has a newer hit"
				}
				t.Row(text)
			})
		}),
	}
	r.DefineWithin(cmd, cli.DurableTimeout)
	cmd.Flags().BoolVar(&durable, "durable", false, cli.DurableHelp)
	cmd.Flags().Var(cli.Moment(&at), "at", "when it was: RFC 3339 or Unix seconds (default now)")
	return cmd
}
