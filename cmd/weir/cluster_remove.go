package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/client"
)

func newClusterRemove(w *world) *cobra.Command {
	var r remote
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
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: work(w, func(cmd *cobra.Command, args []string, from sources) error {
			c, err := r.client(from)
			if err != nil {
				return err
			}
			removed, err := c.RemoveNode(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return r.print(w.stdout, removed, func(t *table) { printRemoved(t, removed) })
		}),
	}
	r.defineWithin(cmd, 30*time.Second)
	return cmd
}

func printRemoved(t *table, r client.RemovedNode) {
	t.row("removed", r.Node)
	if r.Voter {
		t.row("vote", "quorums are counted without it")
	} else {
		t.row("vote", "it had none")
	}
	if len(r.Origins) == 0 {
		t.row("waited for", "it was not")
	} else {
		t.row("waited for", "no longer: origin "+strings.Join(r.Origins, ", "))
	}
	for _, s := range r.Streams {
		t.row(s.Name, "is kept by "+strings.Join(s.Nodes, ", "))
	}
}
