package node

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/alerts"
	"github.com/weir-counter/weir/internal/cluster/transport"
	internaldurable "github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/settings"
	"github.com/weir-counter/weir/internal/tracing"
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

// Traces say where spans of requests go (package tracing).
type Traces struct {
	To       string // a tracing.Target; "": there are none
	Insecure bool   // it may be on another machine without TLS
}

func (cfg Config) validateTraces() error {
	if cfg.Traces.To == "" {
		return nil
	}
	t, err := tracing.ParseTarget(cfg.Traces.To)
	if err != nil {
		return settings.Invalid("Traces.To", err.Error())
	}
	if t.Plain && !cfg.Traces.Insecure && !transport.Loopback(t.Host) {
		return settings.Invalid("Traces.To", fmt.Sprintf("spans to %s go beyond loopback in plain: write grpcs:// or https://, or say --insecure-peers", t.Host))
	}
	return nil
}

// openTraces begins to send spans, until parts are closed. It comes before all that makes them.
func (n *Node) openTraces(ctx context.Context) error {
	if n.cfg.Traces.To == "" {
		return nil
	}
	to, err := tracing.ParseTarget(n.cfg.Traces.To)
	if err != nil {
		return err
	}
	t, err := tracing.Open(ctx, tracing.Config{Target: to, Node: n.cfg.Journal.Join.Node, Version: n.cfg.Service.Version, Logger: n.log})
	if err != nil {
		return fmt.Errorf("--traces: %w", err)
	}
	n.parts.opened(t.Close)
	n.cfg.HTTP.Tracer, n.cfg.RLS.Tracer = t, t
	for _, log := range []**slog.Logger{&n.cfg.HTTP.Logger, &n.cfg.RLS.Logger, &n.cfg.Service.Logger} {
		*log = tracing.Logger(*log)
	}
	return nil
}
