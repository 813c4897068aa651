package join

import (
	"context"
	"fmt"
)

// Spread gives all streams as many replicas as there can be, at most want, where they
// have fewer: they were made when there were fewer nodes. What is to be copied is copied
// afterwards. Streams of an existing NATS are left as they are.
func (n *Node) Spread(ctx context.Context, want int) error {
	if !n.Embedded() {
		return nil
	}
	streams := n.js.ListStreams(ctx)
	for info := range streams.Info() {
		to := info.Config
		if have := to.Replicas; have < n.Replicas(want) {
			to.Replicas = n.Replicas(want)
			if _, err := n.js.UpdateStream(ctx, to); err != nil {
				return fmt.Errorf("join: %s on %d nodes, in place of %d: %w", to.Name, to.Replicas, have, err)
			}
			n.cfg.Logger.Info("spread a stream over more nodes", "stream", to.Name, "nodes", to.Replicas, "before", have)
		}
	}
	return streams.Err()
}
