package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cli"
)

// pastHelp says what a count is worth.
const pastHelp = `A count that is not exact is printed with its bounds: 1234 (1230 to 1240). If no upper
bound is known, it is "1234 or more": a node of the cluster is late, or the window
reaches back beyond the retention. Windows of keys with few hits are exact. For busy
keys, windows within the newest 511 s are exact; older edges lie in slots of up to 1 %
of their age. Windows of whole UTC hours are answered from history, exactly
(--window 24h --at 2026-01-31T23:59:59Z).`

// countFlags are the flags of weir count and weir rate.
type countFlags struct {
	cli.Remote
	windows []time.Duration
	at      time.Time
	fresh   time.Duration
	scope   client.Scope
	by      string // region, or nothing
	ids     bool   // how many different ids too
}

// command adds the flags to cmd, and returns it.
func (f *countFlags) command(w *cli.World, cmd *cobra.Command) *cobra.Command {
	f.Remote.Define(cmd)
	f.Remote.DefineEvery(cmd)
	cli.FreshFlag(cmd, &f.fresh)
	cli.ScopeFlag(cmd, &f.scope)
	cli.Choice(cmd, &f.by, "by", "show the part of each region in addition to the sum", "region")
	cmd.Flags().VarP(cli.Durations(&f.windows), "window", "w", "window to count in, may be repeated (default 5m)")
	cmd.Flags().Var(cli.Moment(&f.at), "at", "end of the windows: RFC 3339 or Unix seconds (default now)")
	return cmd
}

func (f *countFlags) query(keys []string) client.CountQuery {
	if len(keys) == 0 {
		keys = []string{weir.AllKeys}
	}
	return client.CountQuery{Keys: keys, Windows: f.windows, At: f.at, Fresh: f.fresh, Scope: f.scope, ByRegion: f.by != "", Distinct: f.ids}
}

// withSource appends the source of an answer, if that is not windows, to the cells of its row.
func withSource(source string, cells ...string) []string {
	if source != "" {
		cells = append(cells, "from "+source)
	}
	return cells
}

func newCount(w *cli.World) *cobra.Command {
	var f countFlags
	cmd := f.command(w, &cobra.Command{
		Use:   "count [KEY...]",
		Short: "Show how many hits keys had in windows",
		Long: `Show how many hits keys had in windows. Without a key, all hits are counted.

` + pastHelp,
		Example: "  weir count url:/home --window 5m --window 24h\n  weir count --json",
		RunE: cli.Ask(w, &f.Remote, func(ctx context.Context, c *client.Client, keys []string) ([]api.CountAnswer, error) {
			return c.Count(ctx, f.query(keys))
		}, func(t *cli.Table, counts []api.CountAnswer) {
			row := []string{"KEY", "WINDOW", "HITS"}
			if f.ids {
				row = append(row, "DISTINCT")
			}
			t.Row(row...)
			for i, n := range counts {
				if i == 0 { // all have the same
					f.Incomplete(w, n.Freshness)
				}
				row = []string{n.Key, cli.WindowText(n.WindowSeconds), n.Bounds.String()}
				if n.Distinct != nil {
					row = append(row, n.Distinct.String())
				}
				t.Row(withSource(n.Source, row...)...)
				for _, part := range n.Regions {
					t.Row("  "+part.Region, "", part.Bounds.String())
				}
			}
		}),
	})
	cmd.Flags().BoolVar(&f.ids, "distinct", false, "show how many different ids the hits carried, such as visitors")
	return cmd
}

func newRate(w *cli.World) *cobra.Command {
	var f countFlags
	return f.command(w, &cobra.Command{
		Use:   "rate [KEY...]",
		Short: "Show how many hits per second keys had in windows",
		Long: `Show how many hits per second keys had, on average over windows. Without a key,
all hits are counted.`,
		Example: "  weir rate url:/home --window 1m",
		RunE: cli.Ask(w, &f.Remote, func(ctx context.Context, c *client.Client, keys []string) ([]api.RateAnswer, error) {
			return c.Rate(ctx, f.query(keys))
		}, func(t *cli.Table, rates []api.RateAnswer) {
			t.Row("KEY", "WINDOW", "PER SECOND", "HITS")
			for i, n := range rates {
				if i == 0 { // all have the same
					f.Incomplete(w, n.Freshness)
				}
				t.Row(withSource(n.Source, n.Key, cli.WindowText(n.WindowSeconds), n.PerSecond.String(), n.Bounds.String())...)
				for _, part := range n.Regions {
					t.Row("  "+part.Region, "", part.Per(n.WindowSeconds).String(), part.Bounds.String())
				}
			}
		}),
	})
}

const seriesHelp = `Show the hits of a key, window by window. The key * counts all hits.

The last window ends at --to. When --step does not divide the time from --from to
--to, the first window begins after --from.

` + pastHelp

func newSeries(w *cli.World) *cobra.Command {
	var r cli.Remote
	q := client.SeriesQuery{}
	cmd := &cobra.Command{
		Use:     "series KEY",
		Short:   "Show the hits of a key, window by window",
		Long:    seriesHelp,
		Example: "  weir series url:/home --from 2026-01-31T00:00:00Z --to 2026-02-01T00:00:00Z --step 1h\n  weir series url:/home --align day --from -365d --tz Europe/Berlin",
		RunE: cli.Ask(w, &r, func(ctx context.Context, c *client.Client, args []string) (api.SeriesAnswer, error) {
			q.Key = args[0]
			return c.Series(ctx, q)
		}, func(t *cli.Table, series api.SeriesAnswer) {
			r.Incomplete(w, series.Freshness)
			printSeries(t, series)
		}),
	}
	r.Define(cmd)
	r.DefineEvery(cmd)
	cli.FreshFlag(cmd, &q.Fresh)
	cli.ScopeFlag(cmd, &q.Scope)
	cmd.Flags().Var(cli.MomentOrAgo(&q.From), "from", "start, exclusive: RFC 3339, Unix seconds, or a duration before now such as -365d (default an hour before --to, with --align 24 spans)")
	cmd.Flags().Var(cli.MomentOrAgo(&q.To), "to", "end, inclusive (default now)")
	cmd.Flags().Var(cli.Duration(&q.Step), "step", "length of each window")
	cmd.Flags().Lookup("step").DefValue = "1m" // which the server takes; with --align there is none
	cmd.Flags().StringVar(&q.Align, "align", "", "whole spans instead of --step: hour, day, week, month, year; from history, exact (docs/history.md)")
	cmd.Flags().StringVar(&q.Zone, "tz", "", "time zone of --align, such as Europe/Berlin (default UTC)")
	cmd.Flags().BoolVar(&q.Distinct, "distinct", false, "with --align, the different ids of each span too")
	return cmd
}

// barWidth is the length of the bar of the largest count.
const barWidth = 40

func printSeries(t *cli.Table, series api.SeriesAnswer) {
	points := series.Points
	var most uint64
	for _, p := range points {
		most = max(most, p.Estimate)
	}
	title := []string{"UP TO", "HITS"}
	if series.Align != "" {
		title[0] = "FROM"
	}
	ids := len(points) > 0 && points[0].Distinct != nil
	if ids {
		title = append(title, "DISTINCT")
	}
	t.Row(title...)
	for _, p := range points {
		bar := ""
		if most > 0 {
			bar = strings.Repeat("#", int(float64(p.Estimate)/float64(most)*barWidth+0.5))
		}
		row := []string{spanText(series.Zone, p), p.Bounds.String()}
		if ids {
			row = append(row, p.Distinct.String())
		}
		t.Row(append(row, bar)...)
	}
}

// spanText writes when the window of a point ends, or when a span of the calendar begins, in its time zone.
func spanText(zone string, p api.Point) string {
	if p.Start == nil {
		return cli.TimeText(p.At)
	}
	if local, err := time.LoadLocation(zone); err == nil {
		return p.Start.In(local).Format(time.RFC3339)
	}
	return p.Start.UTC().Format(time.RFC3339)
}
