package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/cmd/weir/internal/cli"
	"github.com/weir-counter/weir/internal/units"
)

func newStats(w *cli.World) *cobra.Command {
	var r cli.Remote
	cmd := &cobra.Command{
		Use:               "stats",
		Short:             "Tell what a server holds and what it dropped",
		Example:           "  weir stats --json",
		Args:              cli.Args(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: cli.Ask(w, &r, func(ctx context.Context, c *client.Client, _ []string) (client.Stats, error) {
			return c.Stats(ctx)
		}, printStats),
	}
	r.Define(cmd)
	return cmd
}

// printAlarms prints nothing if nothing is wrong.
func printAlarms(t *cli.Table, alarms []client.Alarm) {
	for _, a := range alarms {
		t.Row("ALARM", a.Code+": "+a.Message)
	}
}

func printStats(t *cli.Table, s client.Stats) {
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
	t.Row("limits", fmt.Sprintf("%d keys, %s, %d requests had no room", s.LimitStates, units.FormatSize(s.LimitBytes), s.LimitRefused))
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
