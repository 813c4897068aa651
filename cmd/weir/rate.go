package main

import (
	"math"

	"github.com/spf13/cobra"
)

func newRate(w *world) *cobra.Command {
	var f countFlags
	cmd := &cobra.Command{
		Use:   "rate [KEY...]",
		Short: "Ask how many hits per second keys had in windows",
		Long: `Ask how many hits per second keys had, on average over windows. Without a key,
all hits are counted.`,
		Example:           "  weir rate url:/home --window 1m",
		Args:              f.args,
		ValidArgsFunction: completeKeys(w, &f.remote, math.MaxInt),
		RunE: work(w, func(cmd *cobra.Command, args []string, from sources) error {
			c, err := f.client(from)
			if err != nil {
				return err
			}
			rates, err := c.Rate(cmd.Context(), f.query(args))
			if err != nil {
				return err
			}
			if len(rates) > 0 {
				f.incomplete(w, rates[0].Freshness)
			}
			return f.print(w.stdout, rates, func(t *table) {
				t.row("KEY", "WINDOW", "PER SECOND", "HITS")
				for _, n := range rates {
					t.row(keyText(n.Key), windowText(n.WindowSeconds), n.PerSecond.String(), n.Bounds.String())
				}
			})
		}),
	}
	f.define(cmd)
	return cmd
}
