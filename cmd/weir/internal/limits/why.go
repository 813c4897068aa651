package limits

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/cmd/weir/internal/cli"
)

// NewWhy is weir why.
func NewWhy(w *cli.World) *cobra.Command {
	var r cli.Remote
	cmd := &cobra.Command{
		Use:   "why ID",
		Short: "Say why a request was denied",
		Long: `Say why a request was denied: which limits said no, which admissions had filled them,
and which limit would have been enough.

ID is "denial" in the answer of /v1/allow, the header field Weir-Denial of a 429, and
what weir allow prints. Each node keeps the newest denials that it answered with; in a
cluster the ID begins with the node's name: name all nodes with --server a,b,c.`,
		Example:           "  weir why 4v8k0zq2m1b7c",
		Args:              cli.Args("ID"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: cli.Work(w, func(cmd *cobra.Command, args []string, from cli.Sources) error {
			c, err := r.Client(from)
			if err != nil {
				return err
			}
			why, err := c.Why(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return r.Print(w.Stdout, why, func(t *cli.Table) { printWhy(t, why) })
		}),
	}
	r.Define(cmd)
	return cmd
}

func printWhy(t *cli.Table, d client.Denial) {
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
		t.Row("not heard of then, so that admissions of theirs may be missing: " + strings.Join(d.Freshness.Late, ", "))
	}
}

func printDenialLimit(t *cli.Table, d client.Denial, l client.DenialLimit) {
	t.Row(fmt.Sprintf("limit %s: %s, %s", l.Name, limitText(l.Limit, l.Per(), l.Burst, l.Algorithm, l.Calendar), l.Where))
	t.Row("  " + ruleText(l))
	if w := l.Whole; w != nil {
		t.Row(fmt.Sprintf("  in region %s, of %s over regions%s", l.Region, limitText(w.Limit, w.Per(), w.Burst, l.Algorithm, l.Calendar), partsText(l.Regions)))
	}
	if l.Asked != l.Key {
		t.Row("  asked for " + cli.KeyText(l.Asked) + ", counted as " + cli.KeyText(l.Key))
	} else {
		t.Row("  key " + cli.KeyText(l.Key))
	}
	switch {
	case l.NoPart:
		t.Row("  the region that was asked has no part of this limit (regions of the policy): ask another, or give it one")
		return
	case l.Banned && l.RetryAt != nil:
		t.Row("  the key was banned until " + exactTime(*l.RetryAt) + ", whatever it has used: weir limits unban lifts that")
		return
	case l.Away != "":
		t.Row("  the node that decides was away: " + l.Away)
	case l.Elsewhere:
		t.Row("  another node decided; this one knew of these admissions")
	}
	t.Row(fmt.Sprintf("  asked for %d when %d of %d were used", l.N, l.Used, l.Burst))
	if l.Others > 0 {
		t.Row(fmt.Sprintf("    %d by other regions, as far as was known", l.Others))
	}
	if len(l.Late) > 0 {
		t.Row("    not heard of then, so that admissions of theirs may be missing: " + strings.Join(l.Late, ", "))
	}
	for _, a := range l.Admissions {
		t.Row(fmt.Sprintf("    %s  %d  %s before", exactTime(a.At), a.N, cli.WaitText(d.At.Sub(a.At.Time).Seconds())))
	}
	if l.Doubt > 0 {
		t.Row(fmt.Sprintf("    (each may have been up to %s earlier: that is how %s counts)", cli.WaitText(l.Doubt), cmp.Or(l.Calendar, l.Algorithm)))
	}
	if l.RetryAt != nil {
		t.Row("  it would have passed at " + exactTime(*l.RetryAt))
	}
	if l.Enough == nil {
		return
	}
	t.Row("  enough would have been " + limitText(l.Enough.Limit, l.Enough.Per(), l.Enough.Burst, l.Algorithm, l.Calendar))
}

// ruleText is the policy that a limit is of.
func ruleText(l client.DenialLimit) string {
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
	if l.Override {
		text += ", with an override for this key"
	}
	if l.Changed {
		text += "; it has another limit now"
	}
	return text
}

// exactTime has milliseconds, in UTC.
func exactTime(t client.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func newWho(w *cli.World) *cobra.Command {
	var r cli.Remote
	q := client.WhoQuery{Window: time.Minute, Most: 20}
	cmd := &cobra.Command{
		Use:   "who",
		Short: "List who is limited now, most denied first",
		Long: `List the keys that a server denied within the window, for each limit, those of limits
that requests bring along too. DENIED is how often within the window; SINCE is the first
denial after a pause of 5 minutes, which may be before it. Each node of a cluster knows
what it denied itself: name all with --server a,b,c, and DENIED is the sum.`,
		Example:           "  weir limits who\n  weir limits who --prefix login: --limit login",
		Args:              cli.Args(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: cli.Work(w, func(cmd *cobra.Command, _ []string, from cli.Sources) error {
			c, err := r.Client(from)
			if err != nil {
				return err
			}
			who, missing, err := c.WhoOfAll(cmd.Context(), q)
			if err != nil {
				return err
			}
			for _, without := range missing {
				fmt.Fprintf(w.Stderr, "warning: what one server denied is missing: %v\n", without)
			}
			return r.Print(w.Stdout, who, func(t *cli.Table) {
				if len(who.Keys) == 0 {
					t.Row("nobody is limited now")
					return
				}
				t.Row("DENIED", "SINCE", "AGAIN IN", "LIMIT", "KEY")
				for _, k := range who.Keys {
					t.Row(fmt.Sprint(k.Denied), exactTime(k.Since), cli.WaitText(k.RetryAfterSeconds), k.Limit, cli.KeyText(k.Key))
				}
			})
		}),
	}
	r.Define(cmd)
	cmd.Flags().VarP(cli.Duration(&q.Window), "window", "w", "list the keys that were denied within it, 1s to 5m")
	cmd.Flags().StringVar(&q.Prefix, "prefix", "", "only keys that begin with this")
	cmd.Flags().StringVar(&q.Limit, "limit", "", "only of this limit")
	cmd.Flags().VarP(cli.Number(&q.Most), "top", "n", "how many keys to list")
	if err := cmd.RegisterFlagCompletionFunc("limit", cli.CompleteLimits(w, &r, 1)); err != nil {
		panic(err) // a flag defined twice
	}
	return cmd
}
