package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/units"
)

func newTop(w *world) *cobra.Command {
	var r remote
	q := client.TopQuery{Window: 5 * time.Minute, N: 10}
	cmd := &cobra.Command{
		Use:               "top",
		Short:             "List the keys with the most hits in a window",
		Example:           "  weir top --prefix url: --window 1h -n 20",
		Args:              args(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: work(w, func(cmd *cobra.Command, _ []string, from sources) error {
			c, err := r.client(from)
			if err != nil {
				return err
			}
			top, err := c.Top(cmd.Context(), q)
			if err != nil {
				return err
			}
			r.incomplete(w, top.Freshness)
			return r.print(w.stdout, top, func(t *table) {
				if len(top.Keys) == 0 {
					t.row(fmt.Sprintf("no key%s had hits in the %s", ofPrefix(q.Prefix), lastText(q.Window, q.At)))
					return
				}
				t.row("HITS", "KEY")
				for _, k := range top.Keys {
					t.row(k.Bounds.String(), keyText(k.Key))
				}
			})
		}),
	}
	r.define(cmd)
	freshFlag(cmd, &q.Fresh)
	cmd.Flags().VarP(duration(&q.Window), "window", "w", "window to count in")
	cmd.Flags().VarP(number(&q.N), "top", "n", "how many keys to list")
	cmd.Flags().StringVar(&q.Prefix, "prefix", "", "only keys that begin with this; those of limit: are listed only so")
	cmd.Flags().Var(moment(&q.At), "at", "end of the window: RFC 3339 or Unix seconds (default now)")
	return cmd
}

// lastText names a window: "last 5m", or "5m up to ...".
func lastText(window time.Duration, at time.Time) string {
	if at.IsZero() {
		return "last " + units.FormatDuration(window)
	}
	return units.FormatDuration(window) + " up to " + formatMoment(at)
}
