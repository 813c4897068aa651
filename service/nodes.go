package service

import (
	"context"
	"time"

	"github.com/weir-counter/weir/api"
)

// Nodes is the nodes that count together, as this one sees them. It takes up to a second
// while one of them is away.
func (s *Service) Nodes(ctx context.Context) api.ClusterAnswer {
	a := api.ClusterAnswer{
		Mode: "ephemeral", Now: api.Millis(s.wall()), Freshness: s.Freshness(), Partitions: s.engine.Config().Partitions,
		Nodes: []api.ClusterNode{}, Servers: []api.ClusterServer{}, Routes: []api.ClusterRoute{}, Problems: []string{}, Alarms: s.Alarms(),
	}
	a.Correction, a.LimitBehind = s.engine.Replication().ClockCorrection().Seconds(), s.engine.Replication().LimitClockBehind().Seconds()
	if s.cfg.Journal != nil {
		st := s.cfg.Journal.Stats()
		a.Mode, a.Size = "alone", 1
		a.Journal = &api.ClusterJournal{Bytes: st.Kept, Divergence: st.Divergence, Holes: st.Holes, Repaired: st.Repaired, LossyFindings: st.Lossy}
	}
	if s.cfg.Cluster != nil {
		s.addCluster(ctx, &a)
	}
	return a
}

// addCluster asks for the state of the servers and the clocks side by side.
func (s *Service) addCluster(ctx context.Context, a *api.ClusterAnswer) {
	skews := make(chan map[string]Skew, 1)
	go func() { skews <- s.cfg.Cluster.Skews(ctx) }()
	st := s.cfg.Cluster.Status(ctx)
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
	a.Replicas, a.Unheld = st.Replicas, s.cfg.Cluster.Unheld()
	clocks, now := <-skews, time.Now()
	a.Now, a.Freshness = api.Millis(s.wall()), s.Freshness() // answers took their time
	for _, n := range s.cfg.Cluster.Nodes() {
		node := api.ClusterNode{
			Node: n.Name, Origin: n.Origin, Epoch: n.Epoch, Self: n.Self, Held: n.Held, Left: n.Left, Late: n.Late, Why: n.Why,
			AsOf: api.Millis(n.AsOf), Heard: api.Millis(n.Heard), LagS: Lag(now, n),
		}
		if skew, ok := clocks[n.Origin]; ok {
			ahead, wrong := skew.Ahead.Seconds(), skew.Error.Seconds()
			node.SkewS, node.SkewErrorS = &ahead, &wrong
		}
		a.Nodes = append(a.Nodes, node)
	}
}

// Lag is in seconds. Of a node that left nothing is to come.
func Lag(now time.Time, n Node) float64 {
	if n.Self || n.Left {
		return 0
	}
	return now.Sub(n.AsOf).Seconds()
}
