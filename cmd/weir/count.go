package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cli"
	"github.com/weir-counter/weir/internal/units"
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

func newTop(w *cli.World) *cobra.Command {
	var r cli.Remote
	q := client.TopQuery{Window: 5 * time.Minute, N: 10}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "List the keys with the most hits",
		Long: `List the keys with the most hits in a window. With --every, the list is renewed until
interrupted; 'weir count', 'weir series', 'weir limits', 'weir cluster' and 'weir stats' have
the same flag.

With --align, list the keys with the most hits of whole hours, days, weeks, months or years
from history: from the one that contains --from to the one that contains --to (default now).`,
		Example: "  weir top --every 2s\n  weir top --prefix url: --window 1h -n 20\n  weir top --align day --from -365d --tz Europe/Berlin -n 100",
	}
	cmd.RunE = cli.Ask(w, &r, func(ctx context.Context, c *client.Client, _ []string) (api.TopAnswer, error) {
		if q.Align != "" && !cmd.Flags().Changed("window") {
			q.Window = 0 // which has a default
		}
		list, err := c.Top(ctx, q)
		r.Incomplete(w, list.Freshness)
		warnMissing(w, list.Missing)
		return list, err
	}, func(t *cli.Table, list api.TopAnswer) { printTop(t, q, list) })
	r.Define(cmd)
	r.DefineEvery(cmd)
	cli.FreshFlag(cmd, &q.Fresh)
	cli.ScopeFlag(cmd, &q.Scope)
	cmd.Flags().VarP(cli.Duration(&q.Window), "window", "w", "window to count in")
	cmd.Flags().VarP(cli.Number(&q.N), "top", "n", "how many keys to list")
	cmd.Flags().StringVar(&q.Prefix, "prefix", "", "only keys with this prefix; keys of limit: are listed only with it")
	cmd.Flags().StringVar(&q.Align, "align", "", "whole spans instead of --window: hour, day, week, month, year; from history, exact (docs/history.md)")
	cmd.Flags().Var(cli.MomentOrAgo(&q.From), "from", "with --align: a time in the first span, RFC 3339, Unix seconds, or a duration before now such as -365d (default now)")
	cmd.Flags().Var(cli.MomentOrAgo(&q.To), "to", "with --align: the exclusive end; its span is included whole (default now)")
	cmd.Flags().StringVar(&q.Zone, "tz", "", "time zone of --align, such as Europe/Berlin (default UTC)")
	cmd.Flags().Var(cli.Moment(&q.At), "at", "end of the window: RFC 3339 or Unix seconds (default now)")
	return cmd
}

func printTop(t *cli.Table, q client.TopQuery, list api.TopAnswer) {
	if len(list.Keys) == 0 {
		t.Row(fmt.Sprintf("no key%s had hits in the %s", ofPrefix(q.Prefix), timeText(q, list)))
		return
	}
	hits := "HITS"
	if list.Start == nil {
		hits += " IN " + units.FormatDuration(q.Window)
	}
	t.Row(hits, "KEY")
	for _, k := range list.Keys {
		t.Row(k.Bounds.String(), k.Key)
	}
}

func timeText(q client.TopQuery, list api.TopAnswer) string {
	if list.Start == nil {
		return lastText(q.Window, q.At)
	}
	return "time from " + cli.FormatMoment(list.Start.Time) + " to " + cli.FormatMoment(list.At.Time)
}

// lastText names a window: "last 5m", or "5m up to ...".
func lastText(window time.Duration, at time.Time) string {
	if at.IsZero() {
		return "last " + units.FormatDuration(window)
	}
	return units.FormatDuration(window) + " up to " + cli.FormatMoment(at)
}

func newStats(w *cli.World) *cobra.Command {
	var r cli.Remote
	cmd := r.Define(&cobra.Command{
		Use:     "stats",
		Short:   "Show what a server holds and what it dropped",
		Example: "  weir stats --json",
		RunE: cli.Ask(w, &r, func(ctx context.Context, c *client.Client, _ []string) (api.StatsAnswer, error) {
			return c.Stats(ctx)
		}, printStats),
	})
	r.DefineEvery(cmd)
	return cmd
}

// printAlarms prints nothing if nothing is wrong.
func printAlarms(t *cli.Table, alarms []api.Alarm) {
	for _, a := range alarms {
		t.Row("ALARM", a.Code+": "+a.Message)
	}
}

func printStats(t *cli.Table, s api.StatsAnswer) {
	t.Row("version", s.Version)
	t.Row("uptime", units.FormatDuration(time.Duration(s.UptimeS)*time.Second))
	t.Row("hits", fmt.Sprint(s.Hits))
	t.Row("late", fmt.Sprint(s.Late))
	t.Row("too late", fmt.Sprint(s.TooLate))
	if s.ForHistory > 0 {
		t.Row("for history", fmt.Sprint(s.ForHistory))
	}
	t.Row("too far ahead", fmt.Sprint(s.TooFarAhead))
	if s.Quarantined > 0 {
		t.Row("in quarantine", fmt.Sprint(s.Quarantined))
	}
	if s.Newest != nil {
		t.Row("newest hit", cli.TimeText(*s.Newest))
	}
	t.Row("keys", fmt.Sprint(s.Keys))
	t.Row("evicted", fmt.Sprintf("%d keys, %d hits", s.EvictedKeys, s.EvictedHits))
	t.Row("expired", fmt.Sprintf("%d keys", s.ExpiredKeys))
	t.Row("memory", fmt.Sprintf("%s of %s", units.FormatSize(s.MemoryBytes), units.FormatSize(s.MemoryBudget)))
	t.Row("limits", fmt.Sprintf("%d keys, %s, %d requests refused (memory full)", s.LimitStates, units.FormatSize(s.LimitBytes), s.LimitRefused))
	switch j := s.Journal; {
	case j == nil:
		t.Row("journal", "none: the server is ephemeral")
	case j.Failing:
		t.Row("journal", fmt.Sprintf("FAILING: hits do not reach the disk, %d wait", s.Waiting))
	default:
		t.Row("journal", fmt.Sprintf("%d flushes, %s, %d hits wait", j.Flushes, units.FormatSize(int64(j.Bytes)), s.Waiting))
	}
	printAlarms(t, s.Alarms)
}
