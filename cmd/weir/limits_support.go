package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cli"
)

func newReset(w *cli.World) *cobra.Command {
	var r cli.Remote
	return r.Define(&cobra.Command{
		Use:   "reset NAME KEY",
		Short: "Restore the whole burst of a key",
		Long: `Delete the usage and the grant of a key: it has its whole burst again. KEY is the counted
key; 'weir limits keys NAME' lists them. Other nodes of a cluster follow one flush interval
later.`,
		Example: "  weir limits reset login login:bob",
		RunE: cli.Ask(w, &r, func(ctx context.Context, c *client.Client, args []string) (api.ResetAnswer, error) {
			return c.ResetLimit(ctx, args[0], args[1])
		}, func(t *cli.Table, answer api.ResetAnswer) {
			was := "forgot what " + answer.Key + " had used of " + answer.Name
			if !answer.Was {
				was = answer.Key + " had used nothing of " + answer.Name
			}
			t.Row(fmt.Sprintf("%s: %d left", was, answer.Remaining))
			if !answer.Was {
				t.Row("weir limits keys " + answer.Name + " lists the keys as they are counted")
			}
		}),
	})
}

func newGrant(w *cli.World) *cobra.Command {
	var r cli.Remote
	length := 24 * time.Hour
	cmd := &cobra.Command{
		Use:   "grant NAME KEY N",
		Short: "Allow a key N requests in addition to its limit, once",
		Long: `Allow a key N requests in addition to its limit, once, within --for. A request that the
limit would deny uses the rest of the limit and then the grant. A new grant replaces the
old one; N of 0 removes it. KEY is the counted key.`,
		Example: "  weir limits grant login login:bob 100 --for 2h",
		RunE: cli.Ask(w, &r, func(ctx context.Context, c *client.Client, args []string) (answer api.GrantAnswer, err error) {
			n, err := strconv.ParseUint(args[2], 10, 64)
			if err != nil {
				return answer, cli.Usage(fmt.Errorf("N of %q: must be a whole number, 0 or more", args[2]))
			}
			return c.Grant(ctx, args[0], args[1], n, time.Now().Add(length))
		}, func(t *cli.Table, answer api.GrantAnswer) {
			if answer.N == 0 {
				t.Row(fmt.Sprintf("%s has no grant of %s: %d left", answer.Key, answer.Name, answer.Remaining))
				return
			}
			t.Row(fmt.Sprintf("%s has %d in addition to %s until %s: %d left", answer.Key, answer.N, answer.Name, answer.Until.UTC().Format(time.RFC3339), answer.Remaining))
		}),
	}
	r.Define(cmd)
	cmd.Flags().Var(cli.Duration(&length), "for", "how long the grant can be used")
	return cmd
}

func newBan(w *cli.World) *cobra.Command {
	var r cli.Remote
	length := 24 * time.Hour
	cmd := &cobra.Command{
		Use:   "ban NAME KEY",
		Short: "Deny a key for some time",
		Long: `Deny a key under a policy for the duration --for, whatever it has used. A new ban replaces
the old one; 'weir limits unban' lifts it. KEY is the counted key.`,
		Example: "  weir limits ban login login:bob --for 2h",
		RunE: cli.Ask(w, &r, func(ctx context.Context, c *client.Client, args []string) (api.BanAnswer, error) {
			return c.Ban(ctx, args[0], args[1], length)
		}, func(t *cli.Table, answer api.BanAnswer) {
			t.Row(fmt.Sprintf("%s is denied by %s until %s", answer.Key, answer.Name, answer.Until.UTC().Format(time.RFC3339)))
		}),
	}
	r.Define(cmd)
	cmd.Flags().Var(cli.Duration(&length), "for", "how long the key is denied, 1s to 366d")
	return cmd
}

func newUnban(w *cli.World) *cobra.Command {
	var r cli.Remote
	return r.Define(&cobra.Command{
		Use:   "unban NAME KEY",
		Short: "Lift the ban of a key",
		Long: `Lift the ban of a key. Its usage stays: while the limit is full, the next request is denied
and, by a policy with deny_for, banned again. 'weir limits reset' restores the burst too.`,
		Example: "  weir limits unban login login:bob",
		RunE: cli.Ask(w, &r, func(ctx context.Context, c *client.Client, args []string) (api.UnbanAnswer, error) {
			return c.Unban(ctx, args[0], args[1])
		}, func(t *cli.Table, answer api.UnbanAnswer) {
			if answer.Was {
				t.Row(fmt.Sprintf("%s is no longer banned by %s", answer.Key, answer.Name))
				if answer.Full {
					t.Row("the limit is still full: the next request is denied and, with deny_for, banned again; 'weir limits reset' also restores the burst")
				}
				return
			}
			t.Row(fmt.Sprintf("%s was not banned by %s", answer.Key, answer.Name))
		}),
	})
}

func newBans(w *cli.World) *cobra.Command {
	var r cli.Remote
	most := 100
	cmd := &cobra.Command{
		Use:   "bans",
		Short: "List banned keys",
		Long: `List the keys that are banned by hand or by a policy with deny_for, as this server knows
them. Bans that end last come first.`,
		Example: "  weir limits bans",
		RunE: cli.Ask(w, &r, func(ctx context.Context, c *client.Client, _ []string) (api.BansAnswer, error) {
			return c.Bans(ctx, most)
		}, func(t *cli.Table, answer api.BansAnswer) {
			if len(answer.Bans) == 0 {
				t.Row("no key is banned now")
				return
			}
			t.Row("UNTIL", "LIMIT", "KEY")
			for _, b := range answer.Bans {
				t.Row(b.Until.UTC().Format(time.RFC3339), b.Name, b.Key)
			}
		}),
	}
	r.Define(cmd)
	cmd.Flags().VarP(cli.Number(&most), "top", "n", "how many keys to list, 1 to 1000")
	return cmd
}

func newRefund(w *cli.World) *cobra.Command {
	var r cli.Remote
	n := 1
	name, key := "", ""
	cmd := &cobra.Command{
		Use:   "refund KEY",
		Short: "Give back what requests of a key did not need",
		Long: `Give back the newest --n admissions that requests of a key took from all policies that
match it, or from --limit only. KEY is the request's key, as for 'weir allow'.`,
		Example: "  weir limits refund team:7 --n 700 --limit tokens",
		RunE: cli.Ask(w, &r, func(ctx context.Context, c *client.Client, args []string) (api.RefundAnswer, error) {
			key = args[0]
			return c.Refund(ctx, time.Time{}, client.Check{Key: key, Limit: name, N: uint64(n)})
		}, func(t *cli.Table, answer api.RefundAnswer) {
			if len(answer.Limits) == 0 {
				t.Row("no policy matches " + key)
				return
			}
			t.Row("LIMIT", "REFUNDED", "LEFT", "KEY")
			for _, l := range answer.Limits {
				t.Row(l.Name, fmt.Sprint(l.Refunded), fmt.Sprint(l.Remaining), l.Key)
			}
		}),
	}
	r.Define(cmd)
	cmd.Flags().VarP(cli.Number(&n), "n", "n", "how many to give back")
	cmd.Flags().StringVar(&name, "limit", "", "only from this policy")
	return cmd
}

func newWhy(w *cli.World) *cobra.Command {
	var r cli.Remote
	return r.Define(&cobra.Command{
		Use:   "why ID",
		Short: "Show why a request was denied",
		Long: `Show why a request was denied: which limits denied it, which admissions had filled them,
and which limit would have sufficed.

ID is "denial" in the answer of /v1/allow, the header field Weir-Denial of a 429, and
what 'weir allow' prints. Each node keeps its newest denials; in a cluster the ID begins
with the name of the node. Name all nodes with --server a,b,c.`,
		Example: "  weir why 4v8k0zq2m1b7c",
		RunE: cli.Ask(w, &r, func(ctx context.Context, c *client.Client, args []string) (api.DenialAnswer, error) {
			return c.Why(ctx, args[0])
		}, printWhy),
	})
}

func printWhy(t *cli.Table, d api.DenialAnswer) {
	where := ""
	if d.Node != "" {
		where = " by node " + d.Node
	}
	t.Row("denied at " + exactTime(d.At) + where)
	if d.Times > 1 {
		t.Row(fmt.Sprintf("%d requests have this ID, until %s", d.Times, exactTime(d.Last)))
	}
	for _, l := range d.Limits {
		t.Row("")
		printDenialLimit(t, d, l)
	}
	if d.More > 0 {
		t.Row(fmt.Sprintf("and %d limits more", d.More))
	}
	if len(d.Freshness.Late) > 0 {
		t.Row("unknown at that time, so their admissions may be missing: " + strings.Join(d.Freshness.Late, ", "))
	}
}

func printDenialLimit(t *cli.Table, d api.DenialAnswer, l api.DenialLimit) {
	t.Row(fmt.Sprintf("limit %s: %s, %s", l.Name, cli.LimitText(l.Limit, l.Per(), l.Burst, l.Algorithm, l.Calendar), l.Where))
	t.Row("  " + ruleText(l))
	if w := l.Whole; w != nil {
		t.Row(fmt.Sprintf("  in region %s, of %s over regions%s", l.Region, cli.LimitText(w.Limit, w.Per(), w.Burst, l.Algorithm, l.Calendar), partsText(l.Regions)))
	}
	if l.Asked != l.Key {
		t.Row("  asked for " + l.Asked + ", counted as " + l.Key)
	} else {
		t.Row("  key " + l.Key)
	}
	switch {
	case l.NoPart:
		t.Row("  the region that was asked has no part of this limit (regions of the policy): ask another, or give it one")
		return
	case l.Banned && l.RetryAt != nil:
		t.Row("  the key was banned until " + exactTime(*l.RetryAt) + ": 'weir limits unban' lifts the ban")
		return
	case l.Away != "":
		t.Row("  the node that decides was away: " + l.Away)
	case l.Elsewhere:
		t.Row("  another node decided; this one knew of these admissions")
	}
	t.Row(fmt.Sprintf("  asked for %d when %d of %d were used", l.N, l.Used, l.Burst))
	for _, a := range l.Admissions {
		t.Row(fmt.Sprintf("    %s  %d  %s before", exactTime(a.At), a.N, cli.WaitText(d.At.Sub(a.At.Time).Seconds())))
	}
	if l.Doubt > 0 {
		t.Row(fmt.Sprintf("    (each may have been up to %s earlier: that is how %s counts)", cli.WaitText(l.Doubt), cmp.Or(l.Calendar, l.Algorithm)))
	}
	if l.RetryAt != nil {
		t.Row("  it would have passed at " + exactTime(*l.RetryAt))
	}
}

// ruleText describes the policy that a limit belongs to.
func ruleText(l api.DenialLimit) string {
	var text string
	switch {
	case l.Inline:
		return "a limit that the request brought along"
	case l.Keys == "":
		return "the policy has changed since, or is gone"
	case l.Line > 0:
		text = fmt.Sprintf("policy in line %d for %s", l.Line, keysText(l.Keys, l.By))
	default:
		text = "policy for " + keysText(l.Keys, l.By)
	}
	switch {
	case l.Range != "":
		text += ", with an override for " + l.Range
	case l.Override:
		text += ", with an override for this key"
	}
	if l.Changed {
		text += "; it has another limit now"
	}
	return text
}

// exactTime writes a time with milliseconds, in UTC.
func exactTime(t api.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func newWho(w *cli.World) *cobra.Command {
	var r cli.Remote
	q := client.WhoQuery{Window: time.Minute, Most: 20}
	cmd := &cobra.Command{
		Use:   "who",
		Short: "List the keys that are denied now, most denied first",
		Long: `List the keys that a server denied within the window, per limit. DENIED is how often
within the window; SINCE is the first denial after a pause of 5 minutes, which can be
earlier. Each node of a cluster knows its own denials: name all nodes with
--server a,b,c, and DENIED is the sum.`,
		Example: "  weir limits who\n  weir limits who --prefix login: --limit login",
		RunE: cli.Ask(w, &r, func(ctx context.Context, c *client.Client, _ []string) (api.WhoAnswer, error) {
			who, missing, err := c.WhoOfAll(ctx, q)
			for _, err := range missing {
				fmt.Fprintf(w.Stderr, "warning: denials of one server are missing: %s\n", cli.LinesText(err.Error()))
			}
			return who, err
		}, func(t *cli.Table, who api.WhoAnswer) {
			if len(who.Keys) == 0 {
				t.Row("nobody is limited now")
				return
			}
			t.Row("DENIED", "SINCE", "AGAIN IN", "LIMIT", "KEY")
			for _, k := range who.Keys {
				t.Row(fmt.Sprint(k.Denied), exactTime(k.Since), cli.WaitText(k.RetryAfterSeconds), k.Limit, k.Key)
			}
		}),
	}
	r.Define(cmd)
	r.DefineEvery(cmd)
	cmd.Flags().VarP(cli.Duration(&q.Window), "window", "w", "time within which the keys were denied, 1s to 5m")
	cmd.Flags().StringVar(&q.Prefix, "prefix", "", "only keys with this prefix")
	cmd.Flags().StringVar(&q.Limit, "limit", "", "only keys of this limit")
	cmd.Flags().VarP(cli.Number(&q.Most), "top", "n", "how many keys to list")
	return cmd
}
