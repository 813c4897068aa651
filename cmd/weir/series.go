package main

import (
	"context"
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
	q := client.SeriesQuery{}
	cmd := &cobra.Command{
		Use:               "series KEY",
		Short:             "Ask for the hits of a key, window by window",
		Long:              seriesHelp,
		Example:           "  weir series url:/home --from 2026-01-31T00:00:00Z --to 2026-02-01T00:00:00Z --step 1h\n  weir series url:/home --align day --from -365d --tz Europe/Berlin",
		Args:              cli.Args("KEY"),
		ValidArgsFunction: cli.CompleteKeys(w, &r, 1),
		RunE: cli.Ask(w, &r, func(ctx context.Context, c *client.Client, args []string) (client.Series, error) {
			q.Key = args[0]
			return c.Series(ctx, q)
		}, func(t *cli.Table, series client.Series) {
			r.Incomplete(w, series.Freshness)
			printSeries(t, series)
		}),
	}
	r.Define(cmd)
	cli.FreshFlag(cmd, &q.Fresh)
	cli.ScopeFlag(cmd, &q.Scope)
	cmd.Flags().Var(cli.MomentOrAgo(&q.From), "from", "start, exclusive: RFC 3339, Unix seconds, or a duration before now such as -365d (default an hour before --to, with --align 24 spans)")
	cmd.Flags().Var(cli.MomentOrAgo(&q.To), "to", "end, inclusive (default now)")
	cmd.Flags().Var(cli.Duration(&q.Step), "step", "length of each window")
	cmd.Flags().Lookup("step").DefValue = "1m" // which the server takes: beside --align there is none
	cmd.Flags().StringVar(&q.Align, "align", "", "whole spans in place of --step: hour, day, week, month, year; from history, exact (docs/history.md)")
	cmd.Flags().StringVar(&q.Zone, "tz", "", "time zone of --align, such as Europe/Berlin (default UTC)")
	return cmd
}

// barWidth is the length of the bar of the largest count.
const barWidth = 40

func printSeries(t *cli.Table, series client.Series) {
	points := series.Points
	var most uint64
	for _, p := range points {
		most = max(most, p.Estimate)
	}
	if series.Align != "" {
		t.Row("FROM", "HITS")
	} else {
		t.Row("UP TO", "HITS")
	}
	for _, p := range points {
		bar := ""
		if most > 0 {
			bar = strings.Repeat("#", int(float64(p.Estimate)/float64(most)*barWidth+0.5))
		}
		t.Row(spanText(series.Zone, p), p.Bounds.String(), bar)
	}
}

// spanText is the time of a point: of a span of a time zone, where it begins there.
func spanText(zone string, p client.Point) string {
	if p.Start == nil {
		return cli.TimeText(p.At)
	}
	if local, err := time.LoadLocation(zone); err == nil {
		return p.Start.In(local).Format(time.RFC3339)
	}
	return p.Start.UTC().Format(time.RFC3339)
}
