package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cli"
	"github.com/weir-counter/weir/internal/units"
)

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
