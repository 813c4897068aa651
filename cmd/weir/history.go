package main

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // zones of days in history, wherever this binary runs

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/cmd/weir/internal/cli"
	"github.com/weir-counter/weir/history"
	"github.com/weir-counter/weir/history/store"
	"github.com/weir-counter/weir/internal/units"
)

// defineHistory defines the flags of history.
func (f *serveFlags) defineHistory(cmd *cobra.Command) {
	h, flags := &f.node.History, cmd.Flags()
	h.On, h.Every, h.Slot = true, 5*time.Second, time.Hour
	flags.BoolVar(&h.On, "history", h.On, "keep exact totals per hour and day for years (docs/history.md); not of an --ephemeral server")
	flags.StringVar(&h.URL, "history-url", "", "database of history: sqlite:FILE, postgres://..., mysql://...; default the file "+history.File+" in --data")
	flags.StringSliceVar(&f.historyKeep, "history-keep", []string{"400d/3653d"}, "how long history keeps hours and days, [PREFIX=]HOURS/DAYS; may be repeated, the longest prefix of a key holds")
	flags.Var(cli.Duration(&h.Slot), "history-slot", "15m or 30m for days in time zones that are not whole hours off UTC; chosen when history begins")
	flags.Var(cli.Size(&h.MaxBytes), "history-disk", "size at which a file of history loses its oldest hours; default a quarter of --max-disk, beside it")
	flags.Lookup("history-disk").DefValue = "" // the usage says it
	flags.Var(cli.Duration(&h.Every), "history-every", "how often history is written, 100ms to 1m")
}

// readHistory reads what the flags of history say together.
func (f *serveFlags) readHistory(from cli.Sources) error {
	h := &f.node.History
	if f.node.Ephemeral || f.demo {
		h.On = false
	}
	h.Keep = nil
	seen := map[string]bool{}
	for _, text := range f.historyKeep {
		k, err := parseKeep(text)
		if err == nil && seen[k.Prefix] {
			err = fmt.Errorf("%q: there are two rules for this prefix", text)
		}
		if err != nil {
			return cli.Usage(fmt.Errorf("%s: %w", from["history-keep"], err))
		}
		seen[k.Prefix] = true
		h.Keep = append(h.Keep, k)
	}
	if !seen[""] {
		h.Keep = append(h.Keep, history.DefaultKeep()...)
	}
	return nil
}

// parseKeep reads [PREFIX=]HOURS/DAYS.
func parseKeep(text string) (k store.Keep, err error) {
	ages := text
	if i := strings.LastIndexByte(text, '='); i >= 0 {
		k.Prefix, ages = text[:i], text[i+1:]
	}
	hours, days, ok := strings.Cut(ages, "/")
	if !ok {
		return k, fmt.Errorf("%q: write HOURS/DAYS such as 400d/3650d, or PREFIX=HOURS/DAYS", text)
	}
	if k.Slots, err = units.ParseDuration(hours); err != nil {
		return k, err
	}
	if k.Days, err = units.ParseDuration(days); err != nil {
		return k, err
	}
	const least = 48 * time.Hour // a day is summed up when it is over
	if k.Slots < least || k.Days < k.Slots {
		return k, fmt.Errorf("%q: hours are kept for at least 2d, and days for at least as long as hours", text)
	}
	return k, nil
}
