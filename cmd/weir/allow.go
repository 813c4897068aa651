package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cli"
)

type allowFlags struct {
	cli.Remote
	limit     string
	n, burst  int
	costs     []string // NAME=N
	per       time.Duration
	algorithm string
	peek      bool
	match     bool
}

// allowTimeout is short: somebody waits for the decision, and decides without it.
const allowTimeout = time.Second

func newAllow(w *cli.World) *cobra.Command {
	var f allowFlags
	cmd := &cobra.Command{
		Use:   "allow KEY [N]",
		Short: "Ask whether a request may pass the limits",
		Long: `Ask whether a request, or N requests, of a key may pass the limits of a server, and
take them if so. All policies that match the key apply, or the one that --limit names,
or a limit that you define: --n in each --per.

The command asks once: if the answer is lost, the request may have been taken. A key
that matches no policy is allowed; --require-match makes that a failure.

Exit codes: 0 allowed, 3 denied, 1 no decision, 2 invalid command line.`,
		Example: `  weir allow login:bob && echo come in
  weir allow user:42 --limit api --peek
  weir allow llm:7 --cost tokens=812
  weir allow backup:nightly --n 1 --per 1h || echo later`,
		RunE: cli.Work(w, func(cmd *cobra.Command, args []string, from cli.Sources) error {
			check, err := f.check(args)
			if err != nil {
				return cli.Usage(err)
			}
			c, err := f.Client(from)
			if err != nil {
				return err
			}
			ask := c.Allow
			if f.peek {
				ask = c.Peek
			}
			d, err := ask(cmd.Context(), check)
			if err != nil {
				return err
			}
			if err := f.Print(w.Stdout, d, func(t *cli.Table) {
				if !d.Unmatched || !f.match { // else the error says it
					printDecision(t, d)
				}
			}); err != nil {
				return err
			}
			switch {
			case !d.Allowed:
				return denied{}
			case d.Unmatched && f.match:
				return fmt.Errorf("no policy matches key %s: 'weir limits' lists the policies, and 'weir limits check FILE KEY' shows which match a key", cli.KeyText(args[0]))
			}
			return nil
		}),
	}
	f.DefineWithin(cmd, allowTimeout)
	flags := cmd.Flags()
	flags.StringVar(&f.limit, "limit", "", "the only policy to apply; with --n and --per the name of your limit")
	flags.Var(cli.Number(&f.n), "n", "your limit: how many in each --per")
	flags.Var(cli.Duration(&f.per), "per", "your limit: the period, from 1ms to the server's maximum (a day)")
	flags.Var(cli.Number(&f.burst), "burst", "your limit: how many at once (default --n)")
	cli.Choice(cmd, &f.algorithm, "algorithm", "your limit: the algorithm (default window)", "window", "fixed", "gcra")
	flags.StringArrayVar(&f.costs, "cost", nil, "what policies with this cost take instead of N, NAME=N such as tokens=812; may be repeated")
	flags.BoolVar(&f.peek, "peek", false, "show the decision without taking anything")
	flags.BoolVar(&f.match, "require-match", false, "exit with 1 if no policy matches the key")
	return cmd
}

func (f *allowFlags) check(args []string) (client.Check, error) {
	check := client.Check{Key: args[0], Limit: f.limit}
	if len(check.Key) < 1 || len(check.Key) > weir.MaxKeyBytes {
		return check, fmt.Errorf("a KEY of %d bytes: it must have 1 to %d", len(check.Key), weir.MaxKeyBytes)
	}
	if len(args) == 2 {
		n, err := strconv.ParseUint(args[1], 10, 64)
		if err != nil || n == 0 {
			return check, fmt.Errorf("wrong N %q: %s", args[1], cli.WholeNumber)
		}
		check.N = n
	}
	for _, text := range f.costs {
		name, number, _ := strings.Cut(text, "=")
		n, err := strconv.ParseUint(number, 10, 64)
		if _, again := check.Costs[name]; err != nil || name == "" || again {
			return check, fmt.Errorf("wrong --cost %q: write a name and a whole number such as tokens=812, each name once", text)
		}
		if check.Costs == nil {
			check.Costs = make(map[string]uint64, len(f.costs))
		}
		check.Costs[name] = n
	}
	switch own := f.n != 0 || f.per != 0; {
	case own && (f.n == 0 || f.per == 0):
		return check, fmt.Errorf("a limit of your own needs both --n and --per, for example --n 5 --per 1m")
	case own:
		check.Inline = &client.Limit{N: uint64(f.n), Per: f.per, Burst: uint64(f.burst), Algorithm: f.algorithm}
	case f.burst != 0 || f.algorithm != "":
		return check, fmt.Errorf("--burst and --algorithm need --n and --per")
	}
	return check, nil
}

func printDecision(t *cli.Table, d api.AllowAnswer) {
	switch {
	case d.Unmatched:
		t.Row("allowed: no policy matches this key")
		return
	case d.Allowed && len(d.Limits) == 0:
		t.Row("allowed: the policies that match this key except its address")
		return
	case d.Allowed:
		t.Row("allowed")
	default:
		why := ""
		if d.Denial != "" {
			why = "; weir why " + d.Denial
		}
		t.Row("denied, again in " + cli.WaitText(d.RetryAfterSeconds) + why)
	}
	t.Row("LIMIT", "KEY", "LEFT", "OF", "RESET", "")
	for _, l := range d.Limits {
		t.Row(l.Name, l.Key, fmt.Sprint(l.Remaining), fmt.Sprint(l.Burst), cli.WaitText(l.ResetSeconds), limitVerdict(l))
	}
}

// limitVerdict says what a limit decided, if that is not simply allowed.
func limitVerdict(l api.LimitState) string {
	switch {
	case l.NoPart && l.Mode != "shadow":
		return "the region that was asked has no part of it"
	case l.Banned:
		return "banned"
	case l.Away != "" && l.Mode != "shadow":
		return "the node that decides is away: " + l.Away
	case l.Warning:
		return "warning: nearly used up"
	case l.Mode == "shadow" && !l.Allowed:
		return "would be denied (shadow)"
	case l.Mode == "shadow":
		return "shadow"
	case !l.Allowed:
		return "denied"
	}
	return ""
}

// denied is the end of a command whose answer is no. The answer was printed.
type denied struct{}

func (denied) Error() string { return "denied" }
