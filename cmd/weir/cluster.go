package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/cmd/weir/internal/cli"
	"github.com/weir-counter/weir/internal/units"
)

func newCluster(w *cli.World) *cobra.Command {
	var r cli.Remote
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show the nodes of a cluster",
		Long: `Show the nodes of a cluster as the node that you ask sees them: up to when it has the
hits of each, how far each clock is ahead, and the journal that they share. It takes
up to a second while a node is away. 'weir cluster remove' removes a dead node.`,
		Example:           "  weir cluster --server 10.0.0.2:8080",
		Args:              cli.Args(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: cli.Ask(w, &r, func(ctx context.Context, c *client.Client, _ []string) (client.Cluster, error) {
			return c.Cluster(ctx)
		}, printCluster),
	}
	r.Define(cmd)
	cmd.AddCommand(newClusterRemove(w))
	return cmd
}

func printCluster(t *cli.Table, c client.Cluster) {
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
	t.Row("as of", fmt.Sprintf("%s, %s ago", cli.TimeText(c.AsOf), ago(c.Now.Sub(c.AsOf.Time).Seconds())))
	t.Row("leader", orNone(c.Leader))
	t.Row("snapshots by", orNone(c.SnapshotsBy))
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
				rtt, waiting = ago(r.RTTS), units.FormatSize(int64(r.PendingBytes))
			}
		}
		t.Row(n.Node, stateOf(n), ago(n.LagS), ago(c.Now.Sub(n.Heard.Time).Seconds())+" ago", clockText(n), rtt, waiting, fmt.Sprint(n.Held), fmt.Sprint(n.Epoch), n.Origin)
	}
}

func stateOf(n client.Node) string {
	switch {
	case n.Self && n.Late:
		return "this one, LATE (" + n.Why + ") since " + cli.TimeText(n.AsOf)
	case n.Self:
		return "this one"
	case n.Left:
		return "left"
	case n.Late:
		return "LATE (" + n.Why + ") since " + cli.TimeText(n.AsOf)
	}
	return "here"
}

// clockText is how far a clock is ahead, if that is more than it may be off.
func clockText(n client.Node) string {
	switch {
	case n.SkewS == nil || n.SkewErrorS == nil:
		return "-"
	case math.Abs(*n.SkewS) <= *n.SkewErrorS:
		return "±" + ago(*n.SkewErrorS)
	case *n.SkewS < 0:
		return ago(-*n.SkewS) + " behind"
	}
	return ago(*n.SkewS) + " ahead"
}

// ago writes seconds as a person reads them, to three digits or so.
func ago(seconds float64) string {
	d := max(0, time.Duration(seconds*float64(time.Second)))
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < 10*time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func orNone(name string) string {
	if name == "" {
		return "none"
	}
	return name
}
