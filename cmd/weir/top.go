package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/cmd/weir/internal/cli"
	"github.com/weir-counter/weir/cmd/weir/internal/top"
	"github.com/weir-counter/weir/internal/units"
)

func newTop(w *cli.World) *cobra.Command {
	var r cli.Remote
	once := false
	q := client.TopQuery{Window: 5 * time.Minute, N: 10}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the keys with the most hits, limits and nodes, live; or list keys once",
		Long: `Show, on a terminal and live, the keys with the most hits in a window, the limits by what
they deny and the nodes by how far they are behind. Tab goes to the next list, 1 to 9
choose a window, Enter looks closer at a row, s sorts, / filters, p freezes, ? tells all
keys, q leaves.

Elsewhere, and with --once, --json, -n, --at, --align, --fresh or --scope, the keys are listed once, as a table.

With --align the keys with the most hits of whole hours, days, weeks, months or years are listed,
from history: from the one that --from is in to that of --to, both now if nothing is said.`,
		Example:           "  weir top\n  weir top --once --prefix url: --window 1h -n 20\n  weir top --align day --from -365d --tz Europe/Berlin -n 100",
		Args:              cli.Args(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: cli.Work(w, func(cmd *cobra.Command, _ []string, from cli.Sources) error {
			c, err := r.Client(from)
			if err != nil {
				return err
			}
			asked := func(flag string) bool { return from[flag] != "" }
			if w.Screen && !once && !r.JSON && !slices.ContainsFunc([]string{"top", "at", "align", "fresh", "scope"}, asked) {
				return top.Run(cmd.Context(), top.Options{
					Source: c, Server: r.Server(), Window: q.Window, Prefix: q.Prefix, In: w.Stdin, Out: w.Stdout, Environ: w.Environ,
				})
			}
			if q.Align != "" && !asked("window") {
				q.Window = 0 // which has a default
			}
			list, err := c.Top(cmd.Context(), q)
			if err != nil {
				return err
			}
			r.Incomplete(w, list.Freshness)
			return r.Print(w.Stdout, list, func(t *cli.Table) {
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
					t.Row(k.Bounds.String(), cli.KeyText(k.Key))
				}
			})
		}),
	}
	r.Define(cmd)
	cmd.Flags().BoolVar(&once, "once", false, "print a table, also on a terminal")
	cli.FreshFlag(cmd, &q.Fresh)
	cli.ScopeFlag(cmd, &q.Scope)
	cmd.Flags().VarP(cli.Duration(&q.Window), "window", "w", "window to count in")
	cmd.Flags().VarP(cli.Number(&q.N), "top", "n", "how many keys to list")
	cmd.Flags().StringVar(&q.Prefix, "prefix", "", "only keys that begin with this; those of limit: are listed only so")
	cmd.Flags().StringVar(&q.Align, "align", "", "whole spans in place of --window: hour, day, week, month, year; from history, exact (docs/history.md)")
	cmd.Flags().Var(cli.MomentOrAgo(&q.From), "from", "with --align: a moment in the first span, RFC 3339, Unix seconds, or a duration before now such as -365d (default now)")
	cmd.Flags().Var(cli.MomentOrAgo(&q.To), "to", "with --align: the end, exclusive, of which the last span is whole (default now)")
	cmd.Flags().StringVar(&q.Zone, "tz", "", "time zone of --align, such as Europe/Berlin (default UTC)")
	cmd.Flags().Var(cli.Moment(&q.At), "at", "end of the window: RFC 3339 or Unix seconds (default now)")
	return cmd
}

// timeText names the time of a list.
func timeText(q client.TopQuery, list client.Top) string {
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
