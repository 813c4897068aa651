package checkpoint

import (
	"context"
	"slices"

	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// One node alone takes all snapshots. Of many nodes, the one with the
// lease snapshots the partitions that it holds, and trims the journal. Other partitions are snapshotted by the first of their holders. If two
// nodes believe that they should, a slot takes one snapshot.

// Lease is the name of the lease of those who trim.
const Lease = "snapshots"

// Trims tells whether this node trims the journal.
func (c *Checkpointer) Trims() bool {
	if !c.cfg.Clustered {
		return true
	}
	_, held := c.cfg.Held()
	return held
}

// toTake are the partitions that this node snapshots now, in order.
func (c *Checkpointer) toTake() (list []int) {
	all, trims := c.cfg.Engine.Config().Partitions, c.Trims()
	var holders Holders
	if !trims {
		if holders = c.cfg.Holders(); !holders.Parted {
			return nil
		}
	}
	by := c.takenBy()
	for partition := range all {
		if c.cfg.Engine.Holds(partition) && (trims || c.takesFor(holders, by, partition)) {
			list = append(list, partition)
		}
	}
	return list
}

// takesFor tells whether this node takes a snapshot in place of the one with the lease.
func (c *Checkpointer) takesFor(holders Holders, by string, partition int) bool {
	nodes := holders.Of(partition)
	return !slices.Contains(nodes, by) && len(nodes) > 0 && nodes[0] == c.cfg.Node
}

// Look finds out what others have stored: when the lease comes to this node,
// and where several nodes take snapshots before each round. It tells whether a round may
// start.
func (c *Checkpointer) Look(ctx context.Context) bool {
	if !c.cfg.Clustered {
		return true
	}
	token, trims := c.cfg.Held()
	if !c.cfg.Holders().Parted && (!trims || token == c.token) {
		return trims
	}
	by := c.cfg.Node
	if !trims {
		var err error
		if by, err = c.cfg.Who(ctx); err != nil {
			c.cfg.Logger.Warn("journal: could not find out which node takes the snapshots; will retry", "error", err)
			return false
		}
	}
	return c.listStored(ctx, by, token)
}

// listStored reads what is in the slots.
func (c *Checkpointer) listStored(ctx context.Context, by string, token uint64) bool {
	partitions := c.cfg.Engine.Config().Partitions
	lists, _, err := c.cfg.Store.ListSnapshots(ctx, partitions)
	if err != nil {
		c.cfg.Logger.Warn("journal: could not list the snapshots; will retry", "error", err)
		return false
	}
	have := make([][record.Slots]replica.Slot, partitions)
	for partition, list := range lists {
		for _, at := range list {
			have[partition][at.Slot] = replica.Slot{UpTo: at.From + 1, Revision: at.Sequence}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rounds.Have, c.token, c.by = have, token, by
	return true
}

// takenBy is the node that has the lease, as the last look at the snapshots found.
func (c *Checkpointer) takenBy() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by
}
