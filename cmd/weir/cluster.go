package main

import (
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/units"
)

func newCluster(w *world) *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show the nodes of a cluster",
		Long: `Show the nodes of a cluster as the node that you ask sees them: up to when it has the
hits of each, how far each clock is ahead, and the journal that they share. It takes
up to a second while a node is away. 'weir cluster remove' removes a dead node.`,
		Example:           "  weir cluster --server 10.0.0.2:8080",
		Args:              args(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: work(w, func(cmd *cobra.Command, _ []string, from sources) error {
			c, err := r.client(from)
			if err != nil {
				return err
			}
			cluster, err := c.Cluster(cmd.Context())
			if err != nil {
				return err
			}
			return r.print(w.stdout, cluster, func(t *table) { printCluster(t, cluster) })
		}),
	}
	r.define(cmd)
	cmd.AddCommand(newClusterRemove(w))
	return cmd
}

func printCluster(t *table, c client.Cluster) {
	switch c.Mode {
	case "cluster":
		t.row("cluster", fmt.Sprintf("%s, seen by %s", c.Cluster, c.Node))
	case "nats":
		t.row("cluster", fmt.Sprintf("existing NATS, seen by %s", c.Node))
	default:
		t.row("cluster", "none: this server is "+c.Mode)
		printAlarms(t, c.Alarms)
		return
	}
	t.row("as of", fmt.Sprintf("%s, %s ago", timeText(c.AsOf), ago(c.Now.Sub(c.AsOf.Time).Seconds())))
	t.row("leader", orNone(c.Leader))
	t.row("snapshots by", orNone(c.SnapshotsBy))
	if j := c.Journal; j != nil {
		t.row("journal", fmt.Sprintf("messages %d to %d, %s, %d partitions", j.First, j.Last, units.FormatSize(j.Bytes), c.Partitions))
		t.row("found", fmt.Sprintf("%d divergences, %d holes, %d repaired", j.Divergence, j.Holes, j.Repaired))
	}
	if c.Replicas > 0 {
		t.row("held by", fmt.Sprintf("%d nodes each", c.Replicas))
	}
	if c.Unheld > 0 {
		t.row("UNHELD", fmt.Sprintf("%d partitions, which no running node can answer for", c.Unheld))
	}
	printAlarms(t, c.Alarms)
	for _, p := range c.Problems {
		t.row("problem", p)
	}
	t.row()
	t.row("NODE", "STATE", "LAG", "HEARD", "CLOCK", "RTT", "WAITING", "HOLDS", "EPOCH", "ORIGIN")
	for _, n := range c.Nodes {
		rtt, waiting := "-", "-"
		for _, r := range c.Routes {
			if r.Node == n.Node {
				rtt, waiting = ago(r.RTTS), units.FormatSize(int64(r.PendingBytes))
			}
		}
		t.row(n.Node, stateOf(n), ago(n.LagS), ago(c.Now.Sub(n.Heard.Time).Seconds())+" ago", clockText(n), rtt, waiting, fmt.Sprint(n.Held), fmt.Sprint(n.Epoch), n.Origin)
	}
}

func stateOf(n client.Node) string {
	switch {
	case n.Self && n.Late:
		return "this one, LATE (" + n.Why + ") since " + timeText(n.AsOf)
	case n.Self:
		return "this one"
	case n.Left:
		return "left"
	case n.Late:
		return "LATE (" + n.Why + ") since " + timeText(n.AsOf)
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
