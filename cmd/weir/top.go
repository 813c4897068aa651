package main

import (
	"github.com/weir-counter/weir/cmd/weir/internal/cli"

	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/units"
)

func newTop(w *cli.World) *cobra.Command {
	var r cli.Remote
	q := client.TopQuery{Window: 5 * time.Minute, N: 10}
	cmd := &cobra.Command{
		Use:               "top",
		Short:             "List the keys with the most hits in a window",
		Example:           "  weir top --prefix url: --window 1h -n 20",
		Args:              cli.Args(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: cli.Work(w, func(cmd *cobra.Command, _ []string, from cli.Sources) error {
			c, err := r.Client(from)
			if err != nil {
				return err
			}
			top, err := c.Top(cmd.Context(), q)
			if err != nil {
				return err
			}
			r.Incomplete(w, top.Freshness)
			return r.Print(w.Stdout, top, func(t *cli.Table) {
				if len(top.Keys) == 0 {
					t.Row(fmt.Sprintf("no key%s had hits in the %s", ofPrefix(q.Prefix), lastText(q.Window, q.At)))
					return
				}
				t.Row("HITS", "KEY")
				for _, k := range top.Keys {
					t.Row(k.Bounds.String(), cli.KeyText(k.Key))
				}
			})
		}),
	}
	r.Define(cmd)
	cli.FreshFlag(cmd, &q.Fresh)
	cmd.Flags().VarP(cli.Duration(&q.Window), "window", "w", "window to count in")
	cmd.Flags().VarP(cli.Number(&q.N), "top", "n", "how many keys to list")
	cmd.Flags().StringVar(&q.Prefix, "prefix", "", "only keys that begin with this; those of limit: are listed only so")
	cmd.Flags().Var(cli.Moment(&q.At), "at", "end of the window: RFC 3339 or Unix seconds (default now)")
	return cmd
}

// lastText names a window: "last 5m", or "5m up to ...".
func lastText(window time.Duration, at time.Time) string {
	if at.IsZero() {
		return "last " + units.FormatDuration(window)
	}
	return units.FormatDuration(window) + " up to " + cli.FormatMoment(at)
}
