package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/cmd/weir/internal/cli"
)

const seriesHelp = `Ask for the hits of a key, window by window. The key * counts all hits.

The last window ends at --to. When --step does not divide the time from --from to
--to, the first window begins after --from.

` + pastHelp

func newSeries(w *cli.World) *cobra.Command {
	var r cli.Remote
	q := client.SeriesQuery{Step: time.Minute}
	cmd := &cobra.Command{
		Use:               "series KEY",
		Short:             "Ask for the hits of a key, window by window",
		Long:              seriesHelp,
		Example:           "  weir series url:/home --from 2026-01-31T00:00:00Z --to 2026-02-01T00:00:00Z --step 1h",
		Args:              cli.Args("KEY"),
		ValidArgsFunction: cli.CompleteKeys(w, &r, 1),
		RunE: cli.Work(w, func(cmd *cobra.Command, args []string, from cli.Sources) error {
			c, err := r.Client(from)
			if err != nil {
				return err
			}
			q.Key = args[0]
			series, err := c.Series(cmd.Context(), q)
			if err != nil {
				return err
			}
			r.Incomplete(w, series.Freshness)
			return r.Print(w.Stdout, series, func(t *cli.Table) { printSeries(t, series.Points) })
		}),
	}
	r.Define(cmd)
	cli.FreshFlag(cmd, &q.Fresh)
	cli.ScopeFlag(cmd, &q.Scope)
	cmd.Flags().Var(cli.Moment(&q.From), "from", "start, exclusive: RFC 3339 or Unix seconds (default an hour before --to)")
	cmd.Flags().Var(cli.Moment(&q.To), "to", "end, inclusive: RFC 3339 or Unix seconds (default now)")
	cmd.Flags().Var(cli.Duration(&q.Step), "step", "length of each window")
	return cmd
}

// barWidth is the length of the bar of the largest count.
const barWidth = 40

func printSeries(t *cli.Table, points []client.Point) {
	var most uint64
	for _, p := range points {
		most = max(most, p.Estimate)
	}
	t.Row("UP TO", "HITS")
	for _, p := range points {
		bar := ""
		if most > 0 {
			bar = strings.Repeat("#", int(float64(p.Estimate)/float64(most)*barWidth+0.5))
		}
		t.Row(cli.TimeText(p.At), p.Bounds.String(), bar)
	}
}
