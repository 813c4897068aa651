package node

import (
	"context"

	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/service"
)

// openPolicies puts the policies of the file, set, and those that were put by API to work on the engine, and follows both
// until parts are closed.
func (n *Node) openPolicies(ctx context.Context, set *policy.Set, sockets *sockets) error {
	sockets.policy.Region = n.cfg.Regions.Region
	sockets.policy.Divided = n.cfg.Journal.Replicas > 0
	if r, ok := sockets.Regions.(regions); ok {
		sockets.policy.Others = newOthers(r.of)
	}
	live, err := admit.NewClusterLive(n.engine, set, sockets.policy)
	if err != nil {
		return err
	}
	sockets.Policies, sockets.PolicyFile = live, n.policyFile
	if api := n.cfg.Policies.API; api != APIOff {
		if sockets.Kept, err = service.OpenKept(ctx, sockets.document, live, api == APIWins, n.log); err != nil {
			if ctx.Err() != nil {
				return interrupted(ctx)
			}
			return err
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	fileEnded, keptEnded := n.policyFile.Watch(ctx, live, n.log), sockets.Kept.Watch(ctx)
	n.parts.opened(func(context.Context) error {
		cancel()
		fileEnded()
		keptEnded()
		return nil
	})
	return nil
}
