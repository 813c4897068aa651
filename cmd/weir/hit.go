package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/client"
)

// wholeNumber is what N must be.
const wholeNumber = "it must be a whole number, 1 or more"

func newHit(w *world) *cobra.Command {
	var r remote
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
		Args:              args("KEY", "[N]"),
		ValidArgsFunction: completeKeys(w, &r, 1),
		RunE: work(w, func(cmd *cobra.Command, args []string, from sources) error {
			hit := client.Hit{Key: args[0], N: 1, At: at}
			if len(args) == 2 {
				n, err := strconv.ParseUint(args[1], 10, 64)
				if err != nil || n == 0 {
					return usage{fmt.Errorf("wrong N %q: %s", args[1], wholeNumber)}
				}
				hit.N = n
			}
			c, err := r.sender(from, durable)
			if err != nil {
				return err
			}
			receipt, err := c.Send(cmd.Context(), []client.Hit{hit})
			if err != nil {
				return err
			}
			return r.print(w.stdout, receipt, func(t *table) {
				text := fmt.Sprintf("%d counted", receipt.Counted)
				if receipt.Durable {
					text += ", on disk"
				}
				if receipt.Late > 0 {
					text += ", late: the key has a newer hit"
				}
				t.row(text)
			})
		}),
	}
	r.defineWithin(cmd, durableTimeout)
	cmd.Flags().BoolVar(&durable, "durable", false, durableHelp)
	cmd.Flags().Var(moment(&at), "at", "when it was: RFC 3339 or Unix seconds (default now)")
	return cmd
}
