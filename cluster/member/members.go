package member

import (
	"context"
	"log/slog"
	"time"

	"github.com/weir-counter/weir/cluster/holders"
	"github.com/weir-counter/weir/cluster/join"
	"github.com/weir-counter/weir/cluster/peers"
	"github.com/weir-counter/weir/journal/replica"
)

// Members looks after the other nodes of a cluster.
type Members struct {
	NATS    *join.Node
	Log     *slog.Logger
	Node    string // this one's name
	Origin  uint64 // of its data directory
	Replica *replica.Replica
	Clocks  *peers.Clocks // who answers is alive
	Holders *holders.View

	CatchUp func(context.Context) error // returns when all is counted here that any node acknowledged before
	Trims   func() bool                 // tells whether this node is the one that trims the journal
}

// spreadTimeout bounds one attempt to spread the streams over more nodes.
const spreadTimeout = 10 * time.Second

// membersEvery is how often a node looks who the nodes are.
const membersEvery = 2 * time.Second

// Run looks, while origins are late, whether they were removed, and has the
// streams kept by as many nodes as there can be. Nobody is told of a change by a
// message: one may be cut off, or not be there.
func (m *Members) Run(ctx context.Context) {
	tick := time.NewTicker(membersEvery)
	defer tick.Stop()
	for spread := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, late := m.Replica.Freshness(time.Now()); len(late) > 0 {
			m.takeRemovals(ctx, late)
		}
		if can := m.NATS.Replicas(replica.Replicas); can > spread && m.Trims() && m.spread(ctx) {
			spread = can
		}
	}
}

// spread is done by one node. The loop calls it again after an error.
func (m *Members) spread(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, spreadTimeout)
	defer cancel()
	err := m.NATS.Spread(ctx, replica.Replicas)
	if err != nil && ctx.Err() == nil {
		m.Log.Warn("journal: could not spread streams over more nodes; will retry", "error", err)
	}
	return err == nil
}
