package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cli"
	"github.com/weir-counter/weir/internal/units"
)

func newRegions(w *cli.World) *cobra.Command {
	var r cli.Remote
	return r.Define(&cobra.Command{
		Use:   "regions",
		Short: "Show the regions that count together",
		Long: `Show the regions that count together as the asked server sees them: up to which time it
has the hits of each, and the links that deliver them. The node that has the links ("owner")
shows their state. 'weir region forget' removes a region that never comes back.`,
		Example: "  weir regions --server 10.0.0.2:8080",
		RunE: cli.Ask(w, &r, func(ctx context.Context, c *client.Client, _ []string) (api.RegionsAnswer, error) {
			return c.Regions(ctx)
		}, printRegions),
	})
}

func printRegions(t *cli.Table, a api.RegionsAnswer) {
	t.Row("region", a.Region)
	if a.Owner {
		t.Row("owner", "this node writes the digests and has the links")
	} else {
		t.Row("owner", "another node writes the digests and has the links")
	}
	t.Row("log", fmt.Sprintf("message %d; %d damaged, %d of the journal unread, %d not counted", a.Last, a.Damaged, a.Unread, a.Missing))
	t.Row("pulled by", fmt.Sprintf("%d other regions now, %s sent", a.Feeds, units.FormatSize(int64(a.Sent))))
	printAlarms(t, a.Alarms)
	t.Row()
	t.Row("REGION", "STATE", "AS OF", "LAG", "HEARD", "DIGEST", "BYTES", "AUDIT")
	for _, r := range a.Regions {
		asOf, lag, heard := "-", "-", "-"
		if r.Epoch > 0 {
			asOf, lag, heard = cli.TimeText(r.AsOf), cli.SecondsText(r.LagS), cli.SecondsText(r.HeardS)+" ago"
			if r.Late {
				lag = cli.SecondsText(r.LagS + r.HeardS)
			}
		}
		audit := "right"
		if r.Wrong > 0 {
			audit = fmt.Sprintf("%d WRONG", r.Wrong)
		}
		t.Row(r.Region, regionState(r), asOf, lag, heard, fmt.Sprint(r.Digest), units.FormatSize(int64(r.Bytes)), audit)
	}
	printLinks(t, a.Links)
	if len(a.Pulls) == 0 {
		return
	}
	t.Row()
	t.Row("PULLS FROM HERE", "STATE", "BYTES", "OUT", "BEHIND")
	for _, p := range a.Pulls {
		state := "now"
		if !p.Now {
			state = "no more"
		}
		t.Row(p.Region, state, units.FormatSize(int64(p.Bytes)), units.FormatSize(int64(p.PerS))+"/s", fmt.Sprintf("%d messages", p.Behind))
	}
}

func printLinks(t *cli.Table, links []api.RegionLink) {
	if len(links) == 0 {
		return
	}
	t.Row()
	t.Row("LINK", "URL", "STATE", "FOR", "BYTES", "IN", "RETRIES")
	for _, l := range links {
		state := "up"
		switch {
		case !l.Up && l.Why != "":
			state = "DOWN: " + l.Why
		case !l.Up:
			state = "not of this node"
		}
		t.Row(l.Region, l.URL, state, cli.SecondsText(l.ForS), units.FormatSize(int64(l.Bytes)), units.FormatSize(int64(l.PerS))+"/s", fmt.Sprint(l.Retries))
	}
}

// silentAfterS is how many seconds after its next digest was due nothing came of a region that is not reachable.
const silentAfterS = 3

func regionState(r api.Region) string {
	switch {
	case r.Self:
		return "this one"
	case r.Gone:
		return "forgotten"
	case r.Epoch == 0:
		return "LATE: nothing came yet"
	case r.Late && r.HeardS > r.EveryS+silentAfterS:
		return "NOT REACHABLE for " + cli.SecondsText(r.HeardS) + ", hits since " + cli.TimeText(r.AsOf) + " may be missing"
	case r.Late:
		return "LATE, hits since " + cli.TimeText(r.AsOf) + " may be missing"
	case len(r.Nodes) > 0:
		return fmt.Sprintf("%d of its nodes LATE", len(r.Nodes))
	case r.Base:
		return "its state is coming"
	case len(r.Keys) > 0:
		return "here, keys " + strings.Join(r.Keys, "* ") + "* alone"
	case r.Linked:
		return "here"
	}
	return "here, by way of others"
}

func newRegion(w *cli.World) *cobra.Command {
	cmd := &cobra.Command{Use: "region", Short: "Remove a region that never comes back", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(newRegionForget(w))
	return cmd
}

func newRegionForget(w *cli.World) *cobra.Command {
	var r cli.Remote
	return r.DefineWithin(&cobra.Command{
		Use:   "forget REGION",
		Short: "Drop all hits of a region that never comes back",
		Long: `Remove a region that never comes back, with its hits, in all regions that links reach. No
answer waits for it any longer. Also remove its --link from the other regions, or they report
it as late. If the region returns after all, its hits return too.`,
		Example: "  weir region forget ap --server 10.0.0.2:8080",
		RunE: cli.Work(w, func(cmd *cobra.Command, args []string, from cli.Sources) error {
			c, err := r.Client(from)
			if err != nil {
				return err
			}
			known, err := c.Regions(cmd.Context())
			if err != nil {
				return err
			}
			if err := c.ForgetRegion(cmd.Context(), args[0]); err != nil {
				return err
			}
			for _, one := range known.Regions {
				if one.Region == args[0] && one.Epoch > 0 && !one.Late && !one.Gone {
					fmt.Fprintf(w.Stderr, "warning: %s is alive (hits up to %s) and will return with all its hits: stop it or remove the links to it, then forget it again\n", args[0], cli.TimeText(one.AsOf))
				}
			}
			return r.Print(w.Stdout, map[string]string{"forgotten": args[0]}, func(t *cli.Table) { t.Row("forgotten", args[0]) })
		}),
	}, 30*time.Second)
}
