package node

import (
	"context"

	"github.com/weir-counter/weir/policy"
)

// openPolicies puts the policies of the file, set, to work on the engine, and follows the file
// until parts are closed.
func (n *Node) openPolicies(set *policy.Set, sockets *sockets) error {
	sockets.policy.Region = n.cfg.Regions.Region
	live, err := policy.NewClusterLive(n.engine, set, sockets.policy)
	if err != nil {
		return err
	}
	sockets.Policies, sockets.PolicyFile = live, n.policyFile
	ctx, cancel := context.WithCancel(context.Background())
	ended := n.policyFile.Watch(ctx, live, n.log)
	n.parts.opened(func(context.Context) error {
		cancel()
		ended()
		return nil
	})
	return nil
}
