package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/units"
)

func newStats(w *world) *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:               "stats",
		Short:             "Tell what a server holds and what it dropped",
		Example:           "  weir stats --json",
		Args:              args(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: work(w, func(cmd *cobra.Command, _ []string, from sources) error {
			c, err := r.client(from)
			if err != nil {
				return err
			}
			stats, err := c.Stats(cmd.Context())
			if err != nil {
				return err
			}
			return r.print(w.stdout, stats, func(t *table) { printStats(t, stats) })
		}),
	}
	r.define(cmd)
	return cmd
}

// printAlarms prints nothing if nothing is wrong.
func printAlarms(t *table, alarms []client.Alarm) {
	for _, a := range alarms {
		t.row("ALARM", a.Code+": "+a.Message)
	}
}

func printStats(t *table, s client.Stats) {
	t.row("version", s.Version)
	t.row("uptime", units.FormatDuration(time.Duration(s.UptimeS)*time.Second))
	t.row("hits", fmt.Sprint(s.Hits))
	t.row("late", fmt.Sprint(s.Late))
	t.row("too late", fmt.Sprint(s.TooLate))
	t.row("too far ahead", fmt.Sprint(s.TooFarAhead))
	if s.Ahead > 0 {
		t.row("ahead of the clock", fmt.Sprint(s.Ahead))
	}
	if s.Newest != nil {
		t.row("newest hit", timeText(*s.Newest))
	}
	t.row("keys", fmt.Sprint(s.Keys))
	t.row("evicted", fmt.Sprintf("%d keys, %d hits", s.EvictedKeys, s.EvictedHits))
	t.row("expired", fmt.Sprintf("%d keys", s.ExpiredKeys))
	t.row("memory", fmt.Sprintf("%s of %s", units.FormatSize(s.MemoryBytes), units.FormatSize(s.MemoryBudget)))
	t.row("limits", fmt.Sprintf("%d keys, %s, %d requests had no room", s.LimitStates, units.FormatSize(s.LimitBytes), s.LimitRefused))
	switch j := s.Journal; {
	case j == nil:
		t.row("journal", "none: the server is ephemeral")
	case j.Failing:
		t.row("journal", fmt.Sprintf("FAILING: hits do not reach the disk, %d wait", s.Waiting))
	default:
		t.row("journal", fmt.Sprintf("%d flushes, %s, %d hits wait", j.Flushes, units.FormatSize(int64(j.Bytes)), s.Waiting))
	}
	printAlarms(t, s.Alarms)
}
