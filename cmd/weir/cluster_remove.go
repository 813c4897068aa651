package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/cmd/weir/internal/cli"
)

func newClusterRemove(w *cli.World) *cobra.Command {
	var r cli.Remote
	cmd := &cobra.Command{
		Use:   "remove NODE",
		Short: "Permanently remove a dead node",
		Long: `Permanently remove a dead or stopped node. You can ask any running node. From then on,
more than half of the other nodes are a quorum, another node stores what the removed
one stored (if there is one that does not yet), and no answer waits for it. Its hits
stay counted.

A running node is refused: stop it first. Before you restart the other nodes, remove
this one from their --peers.`,
		Example:           "  weir cluster remove n3 --server 10.0.0.2:8080",
		Args:              cli.Args("NODE"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: cli.Ask(w, &r, func(ctx context.Context, c *client.Client, args []string) (client.RemovedNode, error) {
			return c.RemoveNode(ctx, args[0])
		}, printRemoved),
	}
	r.DefineWithin(cmd, 30*time.Second)
	return cmd
}

func printRemoved(t *cli.Table, r client.RemovedNode) {
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
