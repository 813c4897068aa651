package server

import (
	"context"
	"time"
)

type clusterAnswer struct {
	Mode    string   `json:"mode" enum:"ephemeral,alone,cluster,nats" doc:"How this server keeps its hits: in memory, in a journal of its own, with other nodes, or with other nodes in an existing NATS."`
	Cluster string   `json:"cluster,omitempty" doc:"The name of the cluster."`
	Node    string   `json:"node,omitempty" doc:"The name of this node."`
	Now     unixTime `json:"now"`
	Freshness
	Nodes       []clusterNode   `json:"nodes" nullable:"false" doc:"All that count hits, this node included, by name."`
	Size        int             `json:"size" doc:"Nodes of the cluster, or servers of NATS, up or not: more than half must be up for hits to become durable."`
	Leader      string          `json:"leader,omitempty" doc:"The leader of JetStream; absent when there is none, or it is not known."`
	SnapshotsBy string          `json:"snapshots_by,omitempty" doc:"The node that takes the snapshots and trims the journal."`
	Servers     []clusterServer `json:"servers" nullable:"false" doc:"The NATS servers that answered."`
	Routes      []clusterRoute  `json:"routes" nullable:"false" doc:"Connections of this node to the others."`
	Correction  float64         `json:"clock_correction_s,omitempty" doc:"Seconds added to this machine's time of day, since most other nodes say that it is wrong by as much."`
	LimitBehind float64         `json:"limit_clock_behind_s" doc:"Seconds by which the time of day has run ahead of the clock that limits are kept by since the start: it was set, or the machine was stopped. Limits are not wrong by it."`
	Partitions  int             `json:"partitions"`
	Replicas    int             `json:"replicas,omitempty" doc:"How many nodes hold each partition; absent: all."`
	Unheld      int             `json:"unheld,omitempty" doc:"Partitions that no node holds that is here: questions about their keys are answered 503."`
	Journal     *clusterJournal `json:"journal,omitempty" doc:"Absent when the server is ephemeral."`
	Alarms      []Alarm         `json:"alarms" nullable:"false" doc:"What is wrong now, as this node knows it: empty when nothing is."`
	Problems    []string        `json:"problems" nullable:"false" doc:"What could not be had, and why."`
}

type clusterNode struct {
	Node       string   `json:"node"`
	Origin     string   `json:"origin" doc:"Of its data directory."`
	Epoch      uint64   `json:"epoch" doc:"The life of its process, counted up at each start."`
	Self       bool     `json:"self,omitempty" doc:"It is this node."`
	AsOf       unixTime `json:"as_of" doc:"All its hits until then are counted here, by its clock."`
	LagS       float64  `json:"lag_s" doc:"Seconds from as_of to now. A node without hits is heard of once a second."`
	Heard      unixTime `json:"heard" doc:"When it was last heard of, by this node's clock."`
	Held       int      `json:"held" doc:"Partitions that it holds and answers for, as it last said."`
	Left       bool     `json:"left,omitempty" doc:"It has stopped, and all its hits are counted here."`
	Late       bool     `json:"late,omitempty" doc:"Newer hits of it may be missing here."`
	Why        string   `json:"why,omitempty" enum:"silent,unwritten,behind" doc:"Why it is late: it was not heard of for more than 3 s; or it is heard of, and its hits do not reach the journal; or they are there, and this node does not apply them."`
	SkewS      *float64 `json:"skew_s,omitempty" doc:"Seconds that its clock is ahead of this node's; absent when it did not answer."`
	SkewErrorS *float64 `json:"skew_error_s,omitempty" doc:"How far skew_s may be off."`
}

type clusterServer struct {
	Name      string  `json:"name"`
	Version   string  `json:"version" doc:"Of NATS."`
	JetStream bool    `json:"jetstream"`
	RTTS      float64 `json:"rtt_s" doc:"Seconds until its answer was here."`
}

type clusterRoute struct {
	Node         string  `json:"node"`
	Addr         string  `json:"addr" doc:"Of the other end."`
	RTTS         float64 `json:"rtt_s" doc:"0: not yet known."`
	PendingBytes int     `json:"pending_bytes" doc:"Bytes that wait to be sent."`
}

type clusterJournal struct {
	First      uint64 `json:"first" doc:"The oldest message that is kept."`
	Last       uint64 `json:"last" doc:"The newest one."`
	Bytes      int64  `json:"bytes" doc:"Of those, on each replica."`
	Divergence uint64 `json:"divergence" doc:"Since the start: other nodes' hits that were found missing here."`
	Holes      uint64 `json:"holes" doc:"Since the start: messages that no replica had."`
	Repaired   uint64 `json:"repaired" doc:"Since the start: flushes that the journal lost and that their nodes sent again."`
	LossyStart int    `json:"lossy_findings" doc:"Damage that the audit at the start found and that lost hits."`
}

type clusterOutput struct{ Body clusterAnswer }

func (s *Server) clusterAnswer(ctx context.Context) clusterAnswer {
	a := clusterAnswer{
		Mode: "ephemeral", Now: millis(s.wall()), Freshness: s.freshness(), Partitions: s.engine.Config().Partitions,
		Nodes: []clusterNode{}, Servers: []clusterServer{}, Routes: []clusterRoute{}, Problems: []string{}, Alarms: s.alarms(),
	}
	a.Correction, a.LimitBehind = s.engine.ClockCorrection().Seconds(), s.engine.LimitClockBehind().Seconds()
	if s.cfg.Journal != nil {
		st := s.cfg.Journal.Stats()
		a.Mode, a.Size = "alone", 1
		a.Journal = &clusterJournal{Bytes: st.Kept, Divergence: st.Divergence, Holes: st.Holes, Repaired: st.Repaired, LossyStart: st.Lossy}
	}
	if s.cfg.Cluster != nil {
		s.addCluster(ctx, &a)
	}
	return a
}

// addCluster asks for the state of the servers and the clocks side by side.
func (s *Server) addCluster(ctx context.Context, a *clusterAnswer) {
	skews := make(chan map[string]Skew, 1)
	go func() { skews <- s.cfg.Cluster.Skews(ctx) }()
	st := s.cfg.Cluster.Status(ctx)
	a.Mode, a.Cluster, a.Node, a.Size, a.Leader, a.SnapshotsBy = st.Mode, st.Cluster, st.Node, st.Size, st.Leader, st.SnapshotsBy
	if a.Journal != nil {
		a.Journal.First, a.Journal.Last, a.Journal.Bytes = st.First, st.Last, max(st.Bytes, a.Journal.Bytes)
	}
	for _, one := range st.Servers {
		a.Servers = append(a.Servers, clusterServer{one.Name, one.Version, one.JetStream, one.RTT.Seconds()})
	}
	for _, r := range st.Routes {
		a.Routes = append(a.Routes, clusterRoute{r.Node, r.Addr, r.RTT.Seconds(), r.Pending})
	}
	a.Problems = append(a.Problems, st.Problems...)
	a.Replicas, a.Unheld = st.Replicas, s.cfg.Cluster.Unheld()
	clocks, now := <-skews, time.Now()
	a.Now, a.Freshness = millis(s.wall()), s.freshness() // answers took their time
	for _, n := range s.cfg.Cluster.Nodes() {
		node := clusterNode{
			Node: n.Name, Origin: n.Origin, Epoch: n.Epoch, Self: n.Self, Held: n.Held, Left: n.Left, Late: n.Late, Why: n.Why,
			AsOf: millis(n.AsOf), Heard: millis(n.Heard), LagS: lag(now, n),
		}
		if skew, ok := clocks[n.Origin]; ok {
			ahead, wrong := skew.Ahead.Seconds(), skew.Error.Seconds()
			node.SkewS, node.SkewErrorS = &ahead, &wrong
		}
		a.Nodes = append(a.Nodes, node)
	}
}

// lag is in seconds. Of a node that left nothing is to come.
func lag(now time.Time, n Node) float64 {
	if n.Self || n.Left {
		return 0
	}
	return now.Sub(n.AsOf).Seconds()
}
