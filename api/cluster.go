package api

// ClusterAnswer is the nodes that count together, as one of them sees them.
type ClusterAnswer struct {
	Mode    string `json:"mode" enum:"ephemeral,alone,cluster,nats" doc:"How this server keeps its hits: in memory, in a journal of its own, with other nodes, or with other nodes in an existing NATS."`
	Cluster string `json:"cluster,omitempty" doc:"The name of the cluster."`
	Node    string `json:"node,omitempty" doc:"The name of this node."`
	Now     Time   `json:"now"`
	Freshness
	Nodes       []ClusterNode   `json:"nodes" nullable:"false" doc:"All that count hits, this node included, by name."`
	Size        int             `json:"size" doc:"Nodes of the cluster, or servers of NATS, up or not: more than half must be up for hits to become durable."`
	Leader      string          `json:"leader,omitempty" doc:"The leader of JetStream; absent when there is none, or it is not known."`
	SnapshotsBy string          `json:"snapshots_by,omitempty" doc:"The node that takes the snapshots and trims the journal."`
	Servers     []ClusterServer `json:"servers" nullable:"false" doc:"The NATS servers that answered."`
	Routes      []ClusterRoute  `json:"routes" nullable:"false" doc:"Connections of this node to the others."`
	Correction  float64         `json:"clock_correction_s,omitempty" doc:"Seconds added to this machine's time of day, since most other nodes say that it is wrong by as much."`
	LimitBehind float64         `json:"limit_clock_behind_s" doc:"Seconds by which the time of day has run ahead of the clock that limits are kept by since the start: it was set, or the machine was stopped. Limits are not wrong by it."`
	Partitions  int             `json:"partitions"`
	Replicas    int             `json:"replicas,omitempty" doc:"How many nodes hold each partition; absent: all."`
	Unheld      int             `json:"unheld,omitempty" doc:"Partitions that no running node holds: questions about their keys are answered 503."`
	Journal     *ClusterJournal `json:"journal,omitempty" doc:"Absent when the server is ephemeral."`
	Alarms      []Alarm         `json:"alarms" nullable:"false" doc:"What is wrong now, as this node knows it: empty when nothing is."`
	Problems    []string        `json:"problems" nullable:"false" doc:"What could not be found out, and why."`
}

// ClusterNode is a node that counts hits.
type ClusterNode struct {
	Node       string   `json:"node"`
	Origin     string   `json:"origin" doc:"Of its data directory."`
	Epoch      uint64   `json:"epoch" doc:"The life of its process, counted up at each start."`
	Self       bool     `json:"self,omitempty" doc:"It is this node."`
	AsOf       Time     `json:"as_of" doc:"All its hits until then are counted here, by its clock."`
	LagS       float64  `json:"lag_s" doc:"Seconds from as_of to now. A node without hits is heard of once a second."`
	Heard      Time     `json:"heard" doc:"When it was last heard of, by this node's clock."`
	Held       int      `json:"held" doc:"Partitions that it holds and answers for, as it last said."`
	Left       bool     `json:"left,omitempty" doc:"It has stopped, and all its hits are counted here."`
	Late       bool     `json:"late,omitempty" doc:"Newer hits of it may be missing here."`
	Why        string   `json:"why,omitempty" enum:"silent,unwritten,behind" doc:"Why it is late: it was not heard of for more than 3 s; or it is heard of, and its hits do not reach the journal; or they are there, and this node does not apply them."`
	SkewS      *float64 `json:"skew_s,omitempty" doc:"Seconds that its clock is ahead of this node's; absent when it did not answer."`
	SkewErrorS *float64 `json:"skew_error_s,omitempty" doc:"How far skew_s may be off."`
}

// ClusterServer is a NATS server that answered.
type ClusterServer struct {
	Name      string  `json:"name"`
	Version   string  `json:"version" doc:"Of NATS."`
	JetStream bool    `json:"jetstream"`
	RTTS      float64 `json:"rtt_s" doc:"Seconds until its answer was here."`
}

// ClusterRoute is a connection to another node.
type ClusterRoute struct {
	Node         string  `json:"node"`
	Addr         string  `json:"addr" doc:"Of the other end."`
	RTTS         float64 `json:"rtt_s" doc:"0: not yet known."`
	PendingBytes int     `json:"pending_bytes" doc:"Bytes that wait to be sent."`
}

// ClusterJournal is the journal that the nodes share; what was found is since the
// start of the one that answered.
type ClusterJournal struct {
	First         uint64 `json:"first" doc:"The oldest message that is kept."`
	Last          uint64 `json:"last" doc:"The newest one."`
	Bytes         int64  `json:"bytes" doc:"Of those, on each replica."`
	Divergence    uint64 `json:"divergence" doc:"Since the start: other nodes' hits that were found missing here."`
	Holes         uint64 `json:"holes" doc:"Since the start: messages that no replica had."`
	Repaired      uint64 `json:"repaired" doc:"Since the start: flushes that the journal lost and that their nodes sent again."`
	LossyFindings int    `json:"lossy_findings" doc:"Damage that the audit at the start found and that lost hits."`
}

// RemovedAnswer is what became of a node that was removed.
type RemovedAnswer struct {
	Node    string          `json:"node"`
	Origins []string        `json:"origins" nullable:"false" doc:"Its data directories. No answer waits for their hits any more."`
	Voter   bool            `json:"voter" doc:"It had a vote among the cluster's servers, and has it no more."`
	Streams []ClusterStream `json:"streams" nullable:"false" doc:"Who keeps what now; empty with an existing NATS."`
}

// ClusterStream is what nodes keep together: the journal, the snapshots, the leases.
type ClusterStream struct {
	Name  string   `json:"name"`
	Nodes []string `json:"nodes" nullable:"false"`
}
