package backend

import (
	"context"
	"errors"
	"time"
)

// Cluster is what a Service needs of the nodes that count together with it. Like
// a Journal it is adapted by whoever wires the two.
type Cluster interface {
	// Freshness says until when the hits of all nodes are counted here, and of
	// which nodes newer hits may be missing.
	Freshness() (asOf time.Time, late []LateNode)
	// Fresh returns when all hits are counted here that any node took before the call:
	// upTo is the message of the journal that has the last of them, and now the latest of
	// the nodes' clocks. If ctx ends before, the error is a *NotFreshError.
	Fresh(ctx context.Context) (upTo uint64, now time.Time, err error)
	// Nodes are those that count together, this one included, by name; those that
	// left for good are among them for a while.
	Nodes() []Node
	// Unheld is how many partitions no running node holds.
	Unheld() int
	// Skews asks the other nodes for their clocks, within a second: above 0 is one
	// ahead of ours. A node that does not answer is not in it.
	Skews(ctx context.Context) map[string]Skew
	// Status asks all that answer, for a second or two at most.
	Status(ctx context.Context) ClusterStatus
	// Remove permanently removes a dead node. The error
	// wraps ErrUnknownNode, or ErrNodeHere if it is alive.
	Remove(ctx context.Context, node string) (Removal, error)
}

// LateNode is one of which hits may be missing: it is not heard of, or lags.
type LateNode struct {
	Name  string
	Since time.Time // its hits until then are counted here
}

// Node is what this node knows of one that counts hits.
type Node struct {
	Name   string
	Origin string // of its data directory
	Epoch  uint64 // of its process
	Self   bool
	Left   bool      // it stopped, and all its hits are here
	Late   bool      // hits of it may be missing here
	Why    string    // it is late: silent, unwritten or behind; "": it is not
	AsOf   time.Time // its hits until then are counted here, by its clock
	Heard  time.Time // when it was last heard of, by our clock
	Held   int       // partitions that it holds, as it last said
}

// Skew is how far a clock is ahead of ours, with the error that the time of the
// messages leaves.
type Skew struct{ Ahead, Error time.Duration }

// ClusterStatus is what a node sees of its cluster.
type ClusterStatus struct {
	Mode        string // cluster or nats
	Cluster     string // its name; of an existing NATS that of its own
	Node        string // this one
	Replicas    int    // nodes that hold a partition; 0: all
	Size        int    // nodes of the cluster, or servers of NATS, up or not
	Leader      string // of JetStream; "": none, or not known
	SnapshotsBy string // the node that takes them; "": none
	Servers     []ClusterServer
	Routes      []ClusterRoute
	First, Last uint64 // messages of the journal
	Bytes       int64  // of them, on each replica
	Problems    []string
}

// ClusterServer is a NATS server that answered.
type ClusterServer struct {
	Name      string
	Version   string
	JetStream bool
	RTT       time.Duration
}

// ClusterRoute is a connection of this node to another.
type ClusterRoute struct {
	Node    string
	Addr    string
	RTT     time.Duration
	Pending int // bytes that wait to be sent
}

// Removal is what became of a node that was removed.
type Removal struct {
	Origins []string // its data directories, that nobody waits for any more
	Voter   bool     // it had a vote, and has it no more
	Streams []ClusterStream
}

// ClusterStream is one of JetStream's, with the nodes that keep it.
type ClusterStream struct {
	Name  string
	Nodes []string
}

var (
	// ErrUnknownNode is what a Cluster's Remove returns for a name that no node has.
	ErrUnknownNode = errors.New("no node of that name")
	// ErrNodeHere is what it returns for a node that is alive.
	ErrNodeHere = errors.New("the node is running")
)

// NotFreshError says which nodes a fresh answer was waited for in vain.
type NotFreshError struct {
	Missing []string
	Reason  string
}

func (e *NotFreshError) Error() string { return e.Reason }

// Lag is how late its hits are, in seconds. Of a node that left nothing is to come.
func (n Node) Lag(now time.Time) float64 {
	if n.Self || n.Left {
		return 0
	}
	return now.Sub(n.AsOf).Seconds()
}
