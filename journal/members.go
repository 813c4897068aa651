package journal

import (
	"context"
	"time"

	"github.com/weir-counter/weir/journal/replica"
)

// membersEvery is how often a node looks who the nodes are.
const membersEvery = 2 * time.Second

// runMembers looks, while origins are late, whether they were removed, and has the
// streams kept by as many nodes as there can be. Nobody is told of a change by a
// message: one may be cut off, or not be there.
func (j *Journal) runMembers(ctx context.Context) {
	tick := time.NewTicker(membersEvery)
	defer tick.Stop()
	for spread := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, late := j.Freshness(); len(late) > 0 {
			j.takeRemovals(ctx, late)
		}
		if can := j.server.Replicas(replica.Replicas); can > spread && j.checkpoints.Trims() && j.spread(ctx) {
			spread = can
		}
	}
}

// spread is done by one node. The loop calls it again after an error.
func (j *Journal) spread(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	err := j.server.Spread(ctx, replica.Replicas)
	if err != nil && ctx.Err() == nil {
		j.log.Warn("journal: could not spread streams over more nodes; will retry", "error", err)
	}
	return err == nil
}
