package client

import (
	"context"
	"net/http"
)

// Freshness says how much of the newest hits is in an answer.
type Freshness struct {
	AsOf Time   `json:"as_of"`          // all hits that any node took until then are counted
	Late []Late `json:"late,omitempty"` // nodes whose newer hits may be missing: the answer is a lower bound
}

// Late is a node of which hits may be missing: it is not heard of, or lags.
type Late struct {
	Node  string `json:"node"`
	Since Time   `json:"since"` // its hits until then are counted
}

// Cluster is the nodes that count together, as one of them sees them.
type Cluster struct {
	Mode    string `json:"mode"` // ephemeral, alone, cluster or nats
	Cluster string `json:"cluster,omitempty"`
	Node    string `json:"node,omitempty"` // the one that answered
	Now     Time   `json:"now"`
	Freshness
	Nodes       []Node          `json:"nodes"`
	Size        int             `json:"size"`                   // nodes, or servers of NATS, up or not
	Leader      string          `json:"leader,omitempty"`       // of JetStream; empty: none, or not known
	SnapshotsBy string          `json:"snapshots_by,omitempty"` // the node that takes them
	Servers     []ClusterServer `json:"servers"`
	Routes      []Route         `json:"routes"`
	Correction  float64         `json:"clock_correction_s,omitempty"` // seconds added to its machine's time of day, which most other nodes say is wrong
	LimitBehind float64         `json:"limit_clock_behind_s"`         // seconds by which the time of day has run ahead of the clock of limits
	Partitions  int             `json:"partitions"`
	Replicas    int             `json:"replicas,omitempty"` // nodes that hold each partition; 0: all
	Unheld      int             `json:"unheld,omitempty"`   // partitions that no node holds that is here
	Journal     *ClusterJournal `json:"journal,omitempty"`  // nil: the server is ephemeral
	Alarms      []Alarm         `json:"alarms,omitempty"`   // what is wrong now, as the node that answered knows it
	Problems    []string        `json:"problems"`
}

// A Node counts hits.
type Node struct {
	Node       string   `json:"node"`
	Origin     string   `json:"origin"` // of its data directory
	Epoch      uint64   `json:"epoch"`  // the life of its process
	Self       bool     `json:"self,omitempty"`
	AsOf       Time     `json:"as_of"` // all its hits until then are counted, by its clock
	LagS       float64  `json:"lag_s"` // since then
	Heard      Time     `json:"heard"` // when that came to be known, by the clock of the one that answered
	Held       int      `json:"held"`  // partitions that it holds and answers for
	Left       bool     `json:"left,omitempty"`
	Late       bool     `json:"late,omitempty"`
	Why        string   `json:"why,omitempty"`    // it is late: silent, unwritten or behind
	SkewS      *float64 `json:"skew_s,omitempty"` // that its clock is ahead; nil: it did not answer
	SkewErrorS *float64 `json:"skew_error_s,omitempty"`
}

// A ClusterServer is a NATS server that answered.
type ClusterServer struct {
	Name      string  `json:"name"`
	Version   string  `json:"version"`
	JetStream bool    `json:"jetstream"`
	RTTS      float64 `json:"rtt_s"`
}

// A Route is a connection to another node.
type Route struct {
	Node         string  `json:"node"`
	Addr         string  `json:"addr"`
	RTTS         float64 `json:"rtt_s"`         // 0: not yet known
	PendingBytes int     `json:"pending_bytes"` // that wait to be sent
}

// ClusterJournal is the journal that the nodes share; what was found is since the
// start of the one that answered.
type ClusterJournal struct {
	First         uint64 `json:"first"` // messages that are kept
	Last          uint64 `json:"last"`
	Bytes         int64  `json:"bytes"` // of them, on each replica
	Divergence    uint64 `json:"divergence"`
	Holes         uint64 `json:"holes"`
	Repaired      uint64 `json:"repaired"`
	LossyFindings int    `json:"lossy_findings"`
}

// RemovedNode is what became of a node that was removed.
type RemovedNode struct {
	Node    string   `json:"node"`
	Origins []string `json:"origins"` // its data directories: nobody waits for hits of them any more
	Voter   bool     `json:"voter"`   // it had a vote among the cluster's servers, and has it no more
	Streams []Stream `json:"streams"` // who keeps what now
}

// A Stream is what nodes keep together: the journal, the snapshots, the leases.
type Stream struct {
	Name  string   `json:"name"`
	Nodes []string `json:"nodes"`
}

// RemoveNode removes a node that never comes back: quorums are counted without it, and
// no answer waits for it. One that is alive is an *Error of code node_here, one that
// nobody knows of unknown_node. It may take 20 s.
func (c *Client) RemoveNode(ctx context.Context, node string) (removed RemovedNode, err error) {
	body, err := c.do(ctx, request{method: http.MethodDelete, path: "/v1/cluster/nodes/" + segment(node)})
	if err != nil {
		return removed, err
	}
	return removed, decode(body, &removed)
}

// Cluster asks for the nodes that count together.
func (c *Client) Cluster(ctx context.Context) (Cluster, error) {
	return ask[Cluster](ctx, c, "/v1/cluster", nil)
}
