package main

import (
	"math"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/cmd/weir/internal/cli"
)

func newRate(w *cli.World) *cobra.Command {
	var f countFlags
	cmd := &cobra.Command{
		Use:   "rate [KEY...]",
		Short: "Ask how many hits per second keys had in windows",
		Long: `Ask how many hits per second keys had, on average over windows. Without a key,
all hits are counted.`,
		Example:           "  weir rate url:/home --window 1m",
		Args:              f.args,
		ValidArgsFunction: cli.CompleteKeys(w, &f.Remote, math.MaxInt),
		RunE: cli.Work(w, func(cmd *cobra.Command, args []string, from cli.Sources) error {
			c, err := f.Client(from)
			if err != nil {
				return err
			}
			rates, err := c.Rate(cmd.Context(), f.query(args))
			if err != nil {
				return err
			}
			if len(rates) > 0 {
				f.Incomplete(w, rates[0].Freshness)
			}
			return f.Print(w.Stdout, rates, func(t *cli.Table) {
				t.Row("KEY", "WINDOW", "PER SECOND", "HITS")
				for _, n := range rates {
					t.Row(sourced(n.Source, cli.KeyText(n.Key), cli.WindowText(n.WindowSeconds), n.PerSecond.String(), n.Bounds.String())...)
					for _, part := range n.Regions {
						t.Row("  "+part.Region, "", part.Per(n.WindowSeconds).String(), part.Bounds.String())
					}
				}
			})
		}),
	}
	f.define(cmd)
	return cmd
}
