package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/units"
)

func newLimits(w *world) *cobra.Command {
	var r remote
	window := 5 * time.Minute
	cmd := &cobra.Command{
		Use:   "limits",
		Short: "List the policies of a server; check a policy file, and try it on an access log",
		Long: `List the policies of a server in order of application, and how they decided in a
window.

A policy file is read by 'weir serve --policy', and again when it changes, or at a
SIGHUP. One that is wrong leaves the policies in use as they are, and the last line
here says what is wrong.`,
		Example:           "  weir limits --window 1h\n  weir limits check policies.yaml",
		Args:              args(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: work(w, func(cmd *cobra.Command, _ []string, from sources) error {
			c, err := r.client(from)
			if err != nil {
				return err
			}
			limits, err := c.Limits(cmd.Context(), window)
			if err != nil {
				return err
			}
			return r.print(w.stdout, limits, func(t *table) { printLimits(t, limits) })
		}),
	}
	r.define(cmd)
	cmd.Flags().VarP(duration(&window), "window", "w", "window to count decisions in")
	cmd.AddCommand(newLimitsCheck(w), newLimitsKeys(w), newLimitsForget(w), newLimitsReplay(w), newLimitsImport(w))
	return cmd
}

func printLimits(t *table, limits client.Limits) {
	if len(limits.Limits) == 0 {
		t.row("no policies")
	} else {
		t.row("NAME", "KEYS", "LIMIT", "MODE", "ALLOWED", "DENIED")
	}
	for _, p := range limits.Limits {
		denied := p.Denied.String()
		if p.Mode == "shadow" {
			denied = p.ShadowDenied.String() + " (shadow)"
		}
		t.row(p.Name, keysText(p.Keys, p.By), limitText(p.Limit, p.Per(), p.Burst, p.Algorithm), modeText(p.Mode, p.Where, p.Away), p.Allowed.String(), denied)
	}
	if f := limits.File; f != nil {
		t.row(fmt.Sprintf("%s, read at %s", f.Path, timeText(f.LoadedAt)))
		if f.Error != "" {
			t.row("NOT IN USE is the file as it is now: " + f.Error)
		}
	}
}

// keysText says which keys a policy is for, and what it counts them by.
func keysText(keys, by string) string {
	if by == "" {
		return keyText(keys)
	}
	return keyText(keys) + " by " + keyText(by)
}

// modeText is the mode, and where the limit is decided if that is not the usual.
func modeText(mode, where, away string) string {
	switch where {
	case "node":
		return mode + ", node"
	case "strict":
		return mode + ", strict, away: " + away
	}
	return mode
}

// limitText is 5/1m, with the burst and the algorithm when they are not the usual ones.
func limitText(n uint64, per time.Duration, burst uint64, algorithm string) string {
	text := fmt.Sprintf("%d/%s", n, units.FormatDuration(per))
	if burst != n {
		text += fmt.Sprintf(" burst %d", burst)
	}
	if algorithm != "window" {
		text += " " + algorithm
	}
	return text
}

func newLimitsKeys(w *world) *cobra.Command {
	var r remote
	most := 20
	cmd := &cobra.Command{
		Use:   "keys NAME",
		Short: "List the keys that have used most of a limit",
		Long: `List the keys that have used most of a limit now, by the share of their burst.

A key at 100 % is denied. Keys that have used nothing are not listed.`,
		Example:           "  weir limits keys login",
		Args:              args("NAME"),
		ValidArgsFunction: completeLimits(w, &r, 1),
		RunE: work(w, func(cmd *cobra.Command, args []string, from sources) error {
			c, err := r.client(from)
			if err != nil {
				return err
			}
			keys, err := c.LimitKeys(cmd.Context(), args[0], most)
			if err != nil {
				return err
			}
			return r.print(w.stdout, keys, func(t *table) {
				if len(keys.Keys) == 0 {
					t.row("no key has used any of " + args[0] + " now")
					return
				}
				t.row("USED", "OF", "SHARE", "RESET", "KEY")
				for _, k := range keys.Keys {
					t.row(fmt.Sprint(k.Used), fmt.Sprint(k.Burst), fmt.Sprintf("%.0f %%", 100*k.Share), waitText(k.ResetSeconds), keyText(k.Key))
				}
			})
		}),
	}
	r.define(cmd)
	cmd.Flags().VarP(number(&most), "top", "n", "how many keys to list")
	return cmd
}
