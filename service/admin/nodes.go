package admin

import (
	"context"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/service/backend"
	"github.com/weir-counter/weir/service/caller"
)

// Nodes is the nodes that count together, as this one sees them. It takes up to a second
// while one of them is away.
func (s *Service) Nodes(ctx context.Context, c caller.Caller) (api.ClusterAnswer, error) {
	if _, err := s.parts.Gate.EnterAll(c, auth.Read); err != nil {
		return api.ClusterAnswer{}, err
	}
	a := api.ClusterAnswer{
		Now: api.Millis(s.parts.Sources.Wall()), Freshness: s.parts.Sources.Freshness(), Partitions: s.parts.Engine.Config().Partitions,
		Nodes: []api.ClusterNode{}, Servers: []api.ClusterServer{}, Routes: []api.ClusterRoute{}, Problems: []string{}, Alarms: s.parts.Health.Alarms(),
	}
	a.Correction, a.LimitBehind = replication.Of(s.parts.Engine).ClockCorrection().Seconds(), replication.Of(s.parts.Engine).LimitClockBehind().Seconds()
	s.parts.Storage.AddNodes(&a)
	s.members.addNodes(ctx, &a)
	return a, nil
}

// addNodes asks for the state of the servers and the clocks side by side.
func (c *clustered) addNodes(ctx context.Context, a *api.ClusterAnswer) {
	s := c.s
	skews := make(chan map[string]backend.Skew, 1)
	go func() { skews <- c.cluster.Skews(ctx) }()
	st := c.cluster.Status(ctx)
	a.Mode, a.Cluster, a.Node, a.Size, a.Leader, a.SnapshotsBy = st.Mode, st.Cluster, st.Node, st.Size, st.Leader, st.SnapshotsBy
	if a.Journal != nil {
		a.Journal.First, a.Journal.Last, a.Journal.Bytes = st.First, st.Last, max(st.Bytes, a.Journal.Bytes)
	}
	for _, one := range st.Servers {
		a.Servers = append(a.Servers, api.ClusterServer{Name: one.Name, Version: one.Version, JetStream: one.JetStream, RTTS: one.RTT.Seconds()})
	}
	for _, r := range st.Routes {
		a.Routes = append(a.Routes, api.ClusterRoute{Node: r.Node, Addr: r.Addr, RTTS: r.RTT.Seconds(), PendingBytes: r.Pending})
	}
	a.Problems = append(a.Problems, st.Problems...)
	a.Replicas, a.Unheld = st.Replicas, c.cluster.Unheld()
	clocks, now := <-skews, time.Now()
	a.Now, a.Freshness = api.Millis(s.parts.Sources.Wall()), s.parts.Sources.Freshness() // answers took their time
	for _, n := range c.cluster.Nodes() {
		node := api.ClusterNode{
			Node: n.Name, Origin: n.Origin, Epoch: n.Epoch, Self: n.Self, Held: n.Held, Left: n.Left, Late: n.Late, Why: n.Why,
			AsOf: api.Millis(n.AsOf), Heard: api.Millis(n.Heard), LagS: n.Lag(now),
		}
		if skew, ok := clocks[n.Origin]; ok {
			ahead, wrong := skew.Ahead.Seconds(), skew.Error.Seconds()
			node.SkewS, node.SkewErrorS = &ahead, &wrong
		}
		a.Nodes = append(a.Nodes, node)
	}
}
