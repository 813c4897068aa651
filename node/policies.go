package node

import (
	"cmp"
	"context"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/alerts"
	internaldurable "github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/policy"
)

// openPolicies applies the policies of the file, set, and the policies that were put by API, and follows both until parts
// are closed.
func (n *Node) openPolicies(ctx context.Context, set *policy.Set, sockets *sockets) error {
	sockets.policy.Region = n.cfg.Regions.Region
	live, err := admit.NewClusterLive(n.engine, set, sockets.policy)
	if err != nil {
		return err
	}
	sockets.Policies, sockets.PolicyFile = live, n.policyFile
	if api := n.cfg.Policies.API; api != APIOff {
		if sockets.Kept, err = access.OpenKept(ctx, sockets.document, live, api == APIWins, n.log); err != nil {
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

// openAlerts begins to send warnings, until parts are closed. Crossings are looked for once there is a service.
func (n *Node) openAlerts(sockets *sockets) (err error) {
	if n.cfg.Alerts.File == "" {
		return nil
	}
	journal, _ := sockets.Journal.(*internaldurable.Journal) // nil of an ephemeral node
	name := cmp.Or(n.cfg.Regions.Region, n.cfg.Journal.Join.Cluster)
	if n.alerts, err = alerts.Open(n.cfg.Alerts, journal, name, sockets.Node, n.log); err != nil {
		return err
	}
	n.parts.opened(n.alerts.Close)
	sockets.Warned = n.alerts.Warned
	sockets.Figures = append(sockets.Figures, func() any { return n.alerts.Figures() })
	others := sockets.Alarms
	sockets.Alarms = func() []api.Alarm { return append(n.alerts.Alarms(), others()...) }
	return nil
}
