package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cli"
	"github.com/weir-counter/weir/internal/units"
)

// The command weir limits shows what a server's policies decided and what keys have used of them. It also checks a policy
// file, or tries one on an access log. Package policy reads the files.

func newLimits(w *cli.World) *cobra.Command {
	var r cli.Remote
	rls, window := "", 5*time.Minute
	cmd := &cobra.Command{
		Use:   "limits",
		Short: "List the policies of a server; check a policy file or try it on an access log",
		Long: `List the policies of a server in order of application, then the limits of its
--rls-config or --rls-xds, and how they decided in a window.

With --rls-config it asks no server: it lists the limits of a YAML file or folder of
envoyproxy/ratelimit, or all its errors, one per line: FILE:LINE: FIELD: error.

'weir serve --policy' reloads its file on changes and on SIGHUP. An invalid file
changes nothing; the last line of this list shows the error.`,
		Example: "  weir limits --window 1h\n  weir limits check policies.yaml\n  weir limits --rls-config config/",
		RunE: cli.Work(w, func(cmd *cobra.Command, _ []string, from cli.Sources) error {
			if from["rls-config"] == "--rls-config" { // what the environment has is a server's
				return listRLS(w, &r, rls)
			}
			c, err := r.Client(from)
			if err != nil {
				return err
			}
			return r.Repeat(cmd.Context(), w, func() error {
				limits, err := c.Limits(cmd.Context(), window)
				if err != nil {
					return err
				}
				return r.Print(w.Stdout, limits, func(t *cli.Table) { printLimits(t, limits) })
			})
		}),
	}
	r.Define(cmd)
	r.DefineEvery(cmd)
	cmd.Flags().VarP(cli.Duration(&window), "window", "w", "window to count decisions in")
	cmd.Flags().StringVar(&rls, "rls-config", "", "list the limits of this envoyproxy/ratelimit file or folder instead of a server's")
	cmd.AddCommand(newCheck(w), newLimitKeys(w), newWho(w), newReset(w), newGrant(w), newBan(w), newUnban(w), newBans(w), newRefund(w), newForget(w), newLimitsReplay(w))
	return cmd
}

func printLimits(t *cli.Table, limits api.LimitsAnswer) {
	if len(limits.Limits)+len(limits.AtOnce) == 0 {
		t.Row("no policies, and no limits of --rls-config")
	} else {
		t.Row("NAME", "KEYS", "LIMIT", "MODE", "ALLOWED", "DENIED")
	}
	for _, p := range limits.Limits {
		denied := p.Denied.String()
		if p.Mode == "shadow" {
			denied = p.ShadowDenied.String() + " (shadow)"
		}
		t.Row(append(policyCells(p), p.Allowed.String(), denied)...)
	}
	for _, l := range limits.AtOnce {
		t.Row(l.Name, keysText(l.Keys, l.By), atOnceText(l.Max, time.Duration(l.TTLSeconds*float64(time.Second))), "permits"+sourceText(l.Version), fmt.Sprintf("%d held of %d keys", l.Held, l.HeldKeys))
	}
	if len(limits.Limits) > 0 {
		t.Row("ALLOWED and DENIED are of the last " + units.FormatDuration(time.Duration(limits.WindowSeconds)*time.Second))
	}
	if f := limits.File; f != nil {
		t.Row(fmt.Sprintf("%s, read at %s", f.Path, cli.TimeText(f.LoadedAt)))
		if f.Error != "" {
			for line := range strings.Lines("NOT IN USE: the current file is invalid: " + f.Error) {
				t.Row(strings.TrimSuffix(line, "\n"))
			}
		}
	}
}

// keysText says which keys a policy is for, and what it counts them by.
func keysText(keys, by string) string {
	if by == "" {
		return keys
	}
	return keys + " by " + by
}

func partsText(parts []api.RegionPart) string {
	text := ""
	for _, p := range parts {
		text += fmt.Sprintf(", %s %d%% (%d)", p.Region, p.Percent, p.Burst)
	}
	return text
}

// modeText returns a policy's mode, and its where and away if they are not the defaults.
func modeText(mode, where, away string) string {
	switch where {
	case "node", "shared":
		return mode + ", " + where
	case "strict":
		return mode + ", strict, away: " + away
	case "leased":
		if away != "closed" {
			return mode + ", away: " + away
		}
	}
	return mode
}

// policyCells returns a policy's name, keys, limit and mode; the mode has its further settings.
func policyCells(p api.LimitPolicy) []string {
	mode := modeText(p.Mode, p.Where, p.Away) + partsText(p.Regions)
	if p.WaitSeconds > 0 {
		mode += ", wait: " + units.FormatDuration(p.Wait())
	}
	if p.Cost != "" {
		mode += ", cost: " + p.Cost
	}
	if p.DenyForSeconds > 0 {
		mode += ", deny_for: " + units.FormatDuration(p.DenyFor())
	}
	return []string{p.Name, keysText(p.Keys, p.By), cli.LimitText(p.Limit, p.Per(), p.Burst, p.Algorithm, p.Calendar), mode + sourceText(p.Version)}
}

// sourceText says where a policy comes from, if that is not the file.
func sourceText(version uint64) string {
	if version == 0 {
		return ""
	}
	return fmt.Sprintf(", by API (version %d)", version)
}

// atOnceText returns text such as: 20 at once, ttl 30s.
func atOnceText(most int, ttl time.Duration) string {
	return fmt.Sprintf("%d at once, ttl %s", most, units.FormatDuration(ttl))
}

func newLimitKeys(w *cli.World) *cobra.Command {
	var r cli.Remote
	most := 20
	cmd := &cobra.Command{
		Use:   "keys NAME",
		Short: "List the keys that have used most of a limit",
		Long: `List the keys that have used most of a limit, by the share of their burst.

Keys at 100 % and banned keys are denied. Keys without usage are not listed;
'weir limits bans' lists all banned keys.`,
		Example: "  weir limits keys login",
		RunE: cli.Ask(w, &r, func(ctx context.Context, c *client.Client, args []string) (api.LimitKeysAnswer, error) {
			return c.LimitKeys(ctx, args[0], most)
		}, func(t *cli.Table, keys api.LimitKeysAnswer) {
			if len(keys.Keys) == 0 {
				t.Row("no key uses " + keys.Name + " now")
				return
			}
			t.Row("USED", "OF", "SHARE", "RESET", "KEY")
			for _, k := range keys.Keys {
				row := []string{fmt.Sprint(k.Used), fmt.Sprint(k.Burst), fmt.Sprintf("%.0f %%", 100*k.Share), cli.WaitText(k.ResetSeconds), k.Key}
				if k.BannedSeconds > 0 {
					row = append(row, "banned for "+cli.WaitText(k.BannedSeconds)+" more")
				}
				t.Row(row...)
			}
		}),
	}
	r.Define(cmd)
	r.DefineEvery(cmd)
	cmd.Flags().VarP(cli.Number(&most), "top", "n", "how many keys to list")
	return cmd
}

func newForget(w *cli.World) *cobra.Command {
	var r cli.Remote
	all := false
	cmd := &cobra.Command{
		Use:   "forget NAME... | --all",
		Short: "Delete the usage of limits that were sent with requests",
		Long: `Delete the usage of limits that were sent with requests (weir allow --n, "limit":{...}
in POST /v1/allow), by name or all: each key has its whole burst again. A limit without
a name is called inline/ALGORITHM/PERIOD.

Policies are not changed. Other nodes of a cluster follow one flush interval later.`,
		Example: "  weir limits forget inline/window/1h\n  weir limits forget --all",
		Args:    cobra.ArbitraryArgs, // none with --all
		RunE: cli.Work(w, func(cmd *cobra.Command, args []string, from cli.Sources) error {
			switch {
			case all && len(args) > 0:
				return cli.Usage(errors.New("names and --all: choose one"))
			case all:
				args = []string{""}
			case len(args) == 0:
				return cli.Usage(errors.New("name a limit, or write --all"))
			}
			c, err := r.Client(from)
			if err != nil {
				return err
			}
			answer := struct {
				Forgotten int `json:"forgotten"`
			}{}
			for _, name := range args {
				n, err := c.ForgetInline(cmd.Context(), name)
				if err != nil {
					return err
				}
				answer.Forgotten += n
			}
			return r.Print(w.Stdout, answer, func(t *cli.Table) { t.Row(fmt.Sprintf("forgot what %d keys had used", answer.Forgotten)) })
		}),
	}
	r.Define(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "all limits that were sent with requests")
	return cmd
}
