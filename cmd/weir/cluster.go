package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cli"
	"github.com/weir-counter/weir/internal/units"
)

func newCluster(w *cli.World) *cobra.Command {
	var r cli.Remote
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show the nodes of a cluster",
		Long: `Show the nodes of a cluster as the asked node sees them: up to which time it has the
hits of each, the clock difference, and the shared journal. It takes up to a second
while a node is unreachable. 'weir cluster remove' removes a dead node.`,
		Example: "  weir cluster --server 10.0.0.2:8080",
		RunE: cli.Ask(w, &r, func(ctx context.Context, c *client.Client, _ []string) (api.ClusterAnswer, error) {
			return c.Cluster(ctx)
		}, printCluster),
	}
	r.Define(cmd)
	r.DefineEvery(cmd)
	cmd.AddCommand(newClusterRemove(w))
	return cmd
}

func printCluster(t *cli.Table, c api.ClusterAnswer) {
	switch c.Mode {
	case "cluster":
		t.Row("cluster", fmt.Sprintf("%s, seen by %s", c.Cluster, c.Node))
	case "nats":
		t.Row("cluster", fmt.Sprintf("existing NATS, seen by %s", c.Node))
	default:
		t.Row("cluster", "none: this server is "+c.Mode)
		printAlarms(t, c.Alarms)
		return
	}
	t.Row("as of", fmt.Sprintf("%s, %s ago", cli.TimeText(c.AsOf), cli.SecondsText(max(0, c.Now.Sub(c.AsOf.Time).Seconds()))))
	t.Row("leader", cmp.Or(c.Leader, "none"))
	t.Row("snapshots by", cmp.Or(c.SnapshotsBy, "none"))
	if j := c.Journal; j != nil {
		t.Row("journal", fmt.Sprintf("messages %d to %d, %s, %d partitions", j.First, j.Last, units.FormatSize(j.Bytes), c.Partitions))
		t.Row("found", fmt.Sprintf("%d divergences, %d holes, %d repaired", j.Divergence, j.Holes, j.Repaired))
	}
	if c.Replicas > 0 {
		t.Row("held by", fmt.Sprintf("%d nodes each", c.Replicas))
	}
	if c.Unheld > 0 {
		t.Row("UNHELD", fmt.Sprintf("%d partitions, which no running node can answer for", c.Unheld))
	}
	printAlarms(t, c.Alarms)
	for _, p := range c.Problems {
		t.Row("problem", p)
	}
	t.Row()
	t.Row("NODE", "STATE", "LAG", "HEARD", "CLOCK", "RTT", "WAITING", "HOLDS", "EPOCH", "ORIGIN")
	for _, n := range c.Nodes {
		rtt, waiting := "-", "-"
		for _, r := range c.Routes {
			if r.Node == n.Node {
				rtt, waiting = cli.SecondsText(r.RTTS), units.FormatSize(int64(r.PendingBytes))
			}
		}
		t.Row(n.Node, stateOf(n, c.Now.Time), cli.SecondsText(n.LagS), cli.SecondsText(max(0, c.Now.Sub(n.Heard.Time).Seconds()))+" ago", clockText(n), rtt, waiting, fmt.Sprint(n.Held), fmt.Sprint(n.Epoch), n.Origin)
	}
}

func stateOf(n api.ClusterNode, now time.Time) string {
	switch {
	case n.Self && n.Late:
		return "this one, LATE (" + n.Why + ") since " + cli.TimeText(n.AsOf)
	case n.Self:
		return "this one"
	case n.Left:
		return "left"
	case n.Late && n.Why == "silent":
		return "NOT REACHABLE for " + cli.SecondsText(max(0, now.Sub(n.Heard.Time).Seconds())) + ", hits since " + cli.TimeText(n.AsOf) + " may be missing"
	case n.Late:
		return "LATE (" + n.Why + ") since " + cli.TimeText(n.AsOf)
	}
	return "here"
}

// clockText is how far a clock is ahead, if that is more than it may be off.
func clockText(n api.ClusterNode) string {
	switch {
	case n.SkewS == nil || n.SkewErrorS == nil:
		return "-"
	case math.Abs(*n.SkewS) <= *n.SkewErrorS:
		return "±" + cli.SecondsText(*n.SkewErrorS)
	case *n.SkewS < 0:
		return cli.SecondsText(-*n.SkewS) + " behind"
	}
	return cli.SecondsText(*n.SkewS) + " ahead"
}

func newClusterRemove(w *cli.World) *cobra.Command {
	var r cli.Remote
	return r.DefineWithin(&cobra.Command{
		Use:   "remove NODE",
		Short: "Permanently remove a dead node",
		Long: `Permanently remove a dead or stopped node. You can ask any running node. More than
half of the other nodes are then a quorum, another node takes over its replicas, and
no answer waits for it. Its hits stay counted.

A running node is refused: stop it first. Before you restart the other nodes, remove
this one from their --peers.`,
		Example: "  weir cluster remove n3 --server 10.0.0.2:8080",
		RunE: cli.Ask(w, &r, func(ctx context.Context, c *client.Client, args []string) (api.RemovedAnswer, error) {
			return c.RemoveNode(ctx, args[0])
		}, printRemoved),
	}, 30*time.Second)
}

func printRemoved(t *cli.Table, r api.RemovedAnswer) {
	t.Row("removed", r.Node)
	if r.Voter {
		t.Row("vote", "quorums are counted without it")
	} else {
		t.Row("vote", "it had none")
	}
	if len(r.Origins) == 0 {
		t.Row("waited for", "it was not")
	} else {
		t.Row("waited for", "no longer: origin "+strings.Join(r.Origins, ", "))
	}
	for _, s := range r.Streams {
		t.Row(s.Name, "is kept by "+strings.Join(s.Nodes, ", "))
	}
}

// checkEphemeral refuses what an ephemeral server can't do.
func (f *serveFlags) checkEphemeral(from cli.Sources) error {
	if !f.node.Ephemeral {
		return nil
	}
	return cmp.Or(
		f.refuse(from, "ephemeral", "an ephemeral server keeps no data: choose one", "data"),
		f.refuse(from, "ephemeral", "history is made of the journal, and an ephemeral server has none: choose one", "history", "history-url"),
		f.refuse(from, "ephemeral", "nodes count together by their journals, and an ephemeral server has none: choose one", "cluster", "nats", "replicas"),
		f.refuse(from, "ephemeral", "regions count together by their journals, and an ephemeral server has none: choose one", "region"))
}

// refuse returns an error that says why if one of the flags is given together with another one.
func (f *serveFlags) refuse(from cli.Sources, other, why string, flags ...string) error {
	for _, flag := range flags {
		if where := from[flag]; where != "" && (flag != "history" || f.node.History.On) {
			return cli.Usage(fmt.Errorf("%s and %s: %s", where, from[other], why))
		}
	}
	return nil
}

// checkListeners refuses settings of a listener that is not opened: they would do nothing, and who gives them relies on them.
func checkListeners(flags *pflag.FlagSet, from cli.Sources) (err error) {
	for _, listener := range []string{"resp", "rls", "statsd"} {
		if flags.Lookup(listener).Value.String() != "" {
			continue
		}
		flags.VisitAll(func(f *pflag.Flag) {
			if where := from[f.Name]; where != "" && err == nil && strings.HasPrefix(f.Name, listener+"-") {
				err = cli.Usage(fmt.Errorf("%s: it does nothing without --%s: give --%s ADDRESS too, or leave it out", where, listener, listener))
			}
		})
	}
	return err
}

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
		RunE: cli.Ask(w, &r, func(ctx context.Context, c *client.Client, args []string) (map[string]string, error) {
			known, err := c.Regions(ctx)
			if err != nil {
				return nil, err
			}
			if err := c.ForgetRegion(ctx, args[0]); err != nil {
				return nil, err
			}
			for _, one := range known.Regions {
				if one.Region == args[0] && one.Epoch > 0 && !one.Late && !one.Gone {
					fmt.Fprintf(w.Stderr, "warning: %s is alive (hits up to %s) and will return with all its hits: stop it or remove the links to it, then forget it again\n", args[0], cli.TimeText(one.AsOf))
				}
			}
			return map[string]string{"forgotten": args[0]}, nil
		}, func(t *cli.Table, answer map[string]string) { t.Row("forgotten", answer["forgotten"]) }),
	}, 30*time.Second)
}
