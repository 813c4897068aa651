// Package backend is what a service needs of the journal that keeps its hits and of the nodes that count
// together with it: two interfaces, what they answer with, and the figures of both.
//
// Invariant: no method waits longer than its context, but for those that say how long. Whoever puts
// a node together (package node) adapts the real ones; package service knows no other, and tests
// bring their own.
package backend

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/weir-counter/weir/api"
)

// Cluster is what a Service needs of the nodes that count together with it. Like
// a Journal it is adapted by whoever wires the two.
type Cluster interface {
	// Freshness says until when the hits of all nodes are counted here, and of
	// which nodes newer hits may be missing.
	Freshness() api.Freshness
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

// Document is where one small document is kept that all nodes share.
type Document interface {
	// Read is the newest content, nil if there is none, and its revision.
	Read(ctx context.Context) (content []byte, revision uint64, err error)
	// Write puts content over that of a revision. It wraps ErrChanged if that is no longer the newest.
	Write(ctx context.Context, content []byte, over uint64) error
	// Follow calls look when another node may have written, until ctx ends.
	Follow(ctx context.Context, look func())
}

// ErrChanged is what a Document's Write returns if another has written since.
var ErrChanged = errors.New("it was changed meanwhile")

// Journal is what a Service needs of the journal that keeps its engine's hits
// on disk. It knows no journal, so whoever wires the two adapts it.
type Journal interface {
	// Sync returns when every hit counted before the call is on disk, or else
	// an error: the hits then may reach the disk later, or not.
	Sync(ctx context.Context) error
	// Backup writes one file with every hit counted before the call. It is ended
	// by ctx.
	Backup(ctx context.Context, w io.Writer) error
	Restorer
	// Stats is called for each scrape and each /v1/stats.
	Stats() JournalStats
	// Alarms are what is wrong now. It is called for each scrape, each /readyz, each
	// /v1/stats and each /v1/cluster, and waits for nobody.
	Alarms() []api.Alarm
}

// JournalStats are the figures of a journal since it was opened.
type JournalStats struct {
	Epoch      uint64        // the life of the process that writes it
	Flushes    uint64        // that are on disk
	Bytes      uint64        // of them
	Retained   int64         // bytes of journal that are retained, of all nodes
	LastFlush  time.Duration // that the last one took
	Failures   uint64        // of attempts to write a flush
	Failing    bool          // the last attempt failed
	Revivals   uint64        // of the embedded server, after a full disk
	Rounds     uint64        // of snapshots
	Fresh      uint64        // rounds for fresh answers
	NotFresh   uint64        // of these, those that ended without one
	LongestCut time.Duration // that a partition was locked to take its state

	// What following other nodes found.
	Holes      uint64 // messages that no replica had
	Repaired   uint64 // flushes that the journal lost, and that their nodes sent again
	Consumers  int    // of the journal's stream
	Divergence uint64 // findings of other nodes' hits that are missing here

	// What the journal found when it was opened.
	Replayed   uint64 // flushes read back
	Repeats    uint64 // messages and batches that came twice, and were dropped
	Unfinished uint64 // flushes that a crash cut off: never acknowledged
	Lossy      int    // findings of damage that lost hits
	Harmless   int    // findings of damage that lost none
}

// Why a Journal did not restore a backup. Any other error is the server's own.
var (
	ErrRestoring     = errors.New("another backup is being restored")
	ErrCountedTwice  = errors.New("hits of the backup are counted already")
	ErrDamagedBackup = errors.New("the backup is damaged")
)

// Restorer restores backups into a journal in use.
type Restorer interface {
	// Restore reads a backup and adds it to all counts (merge), or makes them those of
	// the backup (replace). It is ended by ctx, and goes on when it is called again.
	Restore(ctx context.Context, backup io.Reader, mode string) (api.Restored, error)
}

// RouteStats are the figures of questions whose keys other nodes hold, since the
// start.
type RouteStats struct {
	Asked      uint64 // questions put to other nodes
	Joined     uint64 // questions that waited for the answer to an equal one
	Repeated   uint64 // questions answered by what an equal one was told just before
	Requests   uint64 // messages with questions to other nodes
	Failed     uint64 // those without an answer
	Unanswered uint64 // questions that no holder answered
	Refused    uint64 // questions not asked, because too many waited
	Served     uint64 // questions of other nodes that were answered
	Dropped    uint64 // messages of other nodes that waited for too long or were too many
	Asking     int    // questions under way now
}

// StrictStats are the figures of the strict limits that nodes decide for each other,
// since the start.
type StrictStats struct {
	Held       int    // groups of keys that this node decides for now
	Decided    uint64 // questions that this node decided
	Forwarded  uint64 // questions that it sent to other nodes
	Unanswered uint64 // of its own questions: nobody decided in time
	Lost       uint64 // admissions that count but were not told
	Refused    uint64 // questions of others that were too many
}

// LeasedStats are the figures of leased limits, since the start.
type LeasedStats struct {
	Local  uint64 // decisions by this node, within what it was lent or by what was said to it a moment ago
	Asked  uint64 // messages to nodes that lend
	Served uint64 // messages that this node answered
	Short  uint64 // denials while others had enough that was not used
	Keys   int    // keys that this node was asked for lately
	Lent   uint64 // admissions that this node has now
	Out    uint64 // admissions that this node has lent, and that count as used
}
