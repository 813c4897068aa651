package api

import "time"

// ClusterAnswer is the nodes that count together, as one of them sees them.
type ClusterAnswer struct {
	Mode    string `json:"mode" enum:"ephemeral,alone,cluster,nats" doc:"How this server keeps its hits: in memory, in a journal of its own, with other nodes, or with other nodes in an existing NATS."`
	Cluster string `json:"cluster,omitempty" doc:"The name of the cluster."`
	Node    string `json:"node,omitempty" doc:"The name of this node."`
	Now     Time   `json:"now"`
	Freshness
	Nodes       []ClusterNode   `json:"nodes" nullable:"false" doc:"All that count hits, this node included, by name."`
	Size        int             `json:"size" doc:"Nodes of the cluster, or servers of NATS, up or not: more than half must be up for hits to become durable."`
	Leader      string          `json:"leader,omitempty" doc:"The leader of JetStream; absent if there is none or it is unknown."`
	SnapshotsBy string          `json:"snapshots_by,omitempty" doc:"The node that takes the snapshots and trims the journal."`
	Servers     []ClusterServer `json:"servers" nullable:"false" doc:"The NATS servers that answered."`
	Routes      []ClusterRoute  `json:"routes" nullable:"false" doc:"Connections of this node to the others."`
	Correction  float64         `json:"clock_correction_s,omitempty" doc:"Seconds that this node adds to its machine's time of day to agree with most other nodes."`
	LimitBehind float64         `json:"limit_clock_behind_s" doc:"Seconds by which the time of day has moved ahead of the limits' clock since the start, because it was set or the machine was suspended. Limits are not affected."`
	Partitions  int             `json:"partitions"`
	Replicas    int             `json:"replicas,omitempty" doc:"How many nodes hold each partition; absent: all."`
	Unheld      int             `json:"unheld,omitempty" doc:"Partitions that no running node holds: queries about their keys fail with 503."`
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
	LagS       float64  `json:"lag_s" doc:"Seconds from as_of to now. An idle node sends a message once a second."`
	Heard      Time     `json:"heard" doc:"When its last message arrived, by this node's clock."`
	Held       int      `json:"held" doc:"Partitions that it holds and answers for, by its last report."`
	Left       bool     `json:"left,omitempty" doc:"It has stopped, and all its hits are counted here."`
	Late       bool     `json:"late,omitempty" doc:"Newer hits of this node may be missing here."`
	Why        string   `json:"why,omitempty" enum:"silent,unwritten,behind" doc:"Why it is late. silent: no message for more than 3 s. unwritten: its hits do not reach the journal. behind: this node does not apply the journal in time."`
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

// ClusterJournal is the journal that the nodes share; what was found is since the start of the one that answered.
type ClusterJournal struct {
	First         uint64 `json:"first" doc:"The oldest message that is kept."`
	Last          uint64 `json:"last" doc:"The newest one."`
	Bytes         int64  `json:"bytes" doc:"Bytes of the journal on each replica."`
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
	Streams []ClusterStream `json:"streams" nullable:"false" doc:"Which servers store which stream; empty with an existing NATS."`
}

// ClusterStream is what nodes keep together: the journal, the snapshots, the leases.
type ClusterStream struct {
	Name  string   `json:"name"`
	Nodes []string `json:"nodes" nullable:"false"`
}

// RegionsAnswer is the regions that count together, as one node sees them.
type RegionsAnswer struct {
	Region  string       `json:"region" doc:"This one."`
	Now     Time         `json:"now"`
	Owner   bool         `json:"owner" doc:"This node writes the region's log of digests, and has its links."`
	Regions []Region     `json:"regions" nullable:"false" doc:"All that are known, this one included, by name."`
	Links   []RegionLink `json:"links" nullable:"false" doc:"What this region pulls digests from; only the owner knows how they do."`
	Pulls   []RegionPull `json:"pulls" nullable:"false" doc:"Other regions that pull from this node, or have since the start, by name."`
	Feeds   int64        `json:"feeds" doc:"Other regions that pull from this node now."`
	Sent    uint64       `json:"sent_bytes" doc:"Bytes to them since the start."`
	Last    uint64       `json:"last" doc:"The newest message of the log of digests that this node has read."`
	Damaged uint64       `json:"damaged" doc:"Messages of that log that could not be read, since the start."`
	Unread  uint64       `json:"unread" doc:"Parts of flushes that the journal lost, and no digest has, since the start."`
	Missing uint64       `json:"missing" doc:"Messages that the windows of other regions could not take, since the start."`
	Alarms  []Alarm      `json:"alarms" nullable:"false"`
}

// Region is one of those that count together.
type Region struct {
	Region string  `json:"region"`
	Self   bool    `json:"self,omitempty" doc:"It is the asked node."`
	Linked bool    `json:"linked,omitempty" doc:"This node has a link to it. Digests of other regions arrive indirectly."`
	Known  bool    `json:"known" doc:"Its hits are counted here."`
	Gone   bool    `json:"gone,omitempty" doc:"It was forgotten."`
	Base   bool    `json:"base,omitempty" doc:"Its whole state is on its way here."`
	Epoch  uint64  `json:"epoch" doc:"Of its digests: a new one began with its whole state. 0: none came."`
	Digest uint64  `json:"digest" doc:"The last one."`
	AsOf   Time    `json:"as_of" doc:"All hits that the region accepted until then, by its clock, are counted here, except hits of its late nodes."`
	EveryS float64 `json:"every_s" doc:"Seconds between its digests."`
	HeardS float64 `json:"heard_s" doc:"Seconds since the last one came."`
	LagS   float64 `json:"lag_s" doc:"Seconds from the as_of of the last one until it came, by this node's clock."`
	Late   bool    `json:"late,omitempty" doc:"Newer hits of this node may be missing here."`
	Nodes  []Late  `json:"late_nodes,omitempty" doc:"Nodes of the region that are late."`
	Bytes  uint64  `json:"bytes" doc:"Of its digests, since the start."`
	Wrong  uint64  `json:"audit_wrong" doc:"Batches whose running total was not the next one, since the start: 0, unless something is lost."`
}

// RegionLink is a link by which a region pulls digests.
type RegionLink struct {
	Region  string  `json:"region"`
	URL     string  `json:"url"`
	Up      bool    `json:"up"`
	Why     string  `json:"why,omitempty" doc:"It is not up."`
	ForS    float64 `json:"for_s" doc:"Seconds since the link came up or went down."`
	Bytes   uint64  `json:"bytes" doc:"That came since the start."`
	PerS    float64 `json:"bytes_per_s" doc:"The mean of the last 10 s."`
	Retries uint64  `json:"retries" doc:"Attempts that failed, since the start."`
}

// RegionPull is what one other region has pulled from a node since its start.
type RegionPull struct {
	Region string  `json:"region"`
	Now    bool    `json:"now" doc:"It does."`
	Bytes  uint64  `json:"bytes" doc:"Sent to it."`
	PerS   float64 `json:"bytes_per_s" doc:"The mean of the last 10 s."`
	Behind uint64  `json:"behind" doc:"Messages of the local log of digests that are still to be sent to it."`
}

// StatsAnswer is what a server holds and what it dropped.
type StatsAnswer struct {
	Version      string `json:"version"`
	UptimeS      int64  `json:"uptime_s" doc:"Whole seconds since the start."`
	Now          Time   `json:"now" doc:"The time of queries without a time."`
	Hits         uint64 `json:"hits" doc:"Hits counted, including late ones, without decisions of limits."`
	Late         uint64 `json:"late" doc:"Hits counted that were older than the newest of their key."`
	TooLate      uint64 `json:"too_late" doc:"Hits not counted: older than the retention."`
	ForHistory   uint64 `json:"for_history,omitempty" doc:"Hits older than the retention. They are in history only, and not among hits."`
	TooFarAhead  uint64 `json:"too_far_ahead" doc:"Hits refused: too far in the future."`
	Quarantined  uint64 `json:"quarantined" doc:"Hits from other nodes, snapshots or earlier runs that are minutes ahead of this node's clock. They count when their second comes."`
	Newest       *Time  `json:"newest,omitempty" doc:"The newest hit; absent when there is none."`
	Keys         int    `json:"keys"`
	HotKeys      int    `json:"hot_keys" doc:"Keys that keep slots instead of single hits."`
	EvictedKeys  uint64 `json:"evicted_keys" doc:"Keys dropped to keep the memory budget."`
	EvictedHits  uint64 `json:"evicted_hits" doc:"Hits that left with them."`
	ExpiredKeys  uint64 `json:"expired_keys" doc:"Keys dropped because all their hits were older than the retention."`
	MemoryBytes  int64  `json:"memory_bytes" doc:"Memory of the keys, as the budget counts it."`
	MemoryBudget int64  `json:"memory_budget_bytes"`
	Partitions   int    `json:"partitions"`

	LimitStates  int    `json:"limit_states" doc:"Keys with usage of limits, counted for each limit, and some idle ones."`
	LimitBytes   int64  `json:"limit_bytes" doc:"Memory of weir_limit_states, as the budget counts it."`
	LimitRefused uint64 `json:"limit_refused" doc:"Requests that could not be decided because --limit-memory was full of limits in use."`

	Durable bool          `json:"durable" doc:"Hits are kept on disk: the server is not ephemeral."`
	Waiting int64         `json:"waiting" doc:"Hits that wait for the journal, one for each key and second."`
	Journal *JournalStats `json:"journal,omitempty" doc:"Absent when the server is ephemeral."`
	Alarms  []Alarm       `json:"alarms" nullable:"false" doc:"What is wrong now: empty when nothing is."`
}

// JournalStats is what a server tells of its journal, since its start.
type JournalStats struct {
	Epoch            uint64  `json:"epoch" doc:"The life of the process, counted up at each start."`
	Flushes          uint64  `json:"flushes" doc:"Flushes that are on disk."`
	Bytes            uint64  `json:"bytes" doc:"Bytes of them."`
	FlushSeconds     float64 `json:"flush_s" doc:"Time that the last one took."`
	Failures         uint64  `json:"failures" doc:"Failed attempts to write a flush; each is retried."`
	Failing          bool    `json:"failing" doc:"The last attempt failed."`
	SnapshotRounds   uint64  `json:"snapshot_rounds" doc:"Rounds in which every partition was snapshotted."`
	ReplayedFlushes  uint64  `json:"replayed_flushes" doc:"Flushes that were read back at the start."`
	LossyFindings    int     `json:"lossy_findings" doc:"Damage that the audit at the start found and that lost hits."`
	HarmlessFindings int     `json:"harmless_findings" doc:"Damage that it found and that lost none."`
}

// RestoreMode says what becomes of the counts that a server has.
type RestoreMode string

// What a backup does to the counts that are there.
const (
	Merge   RestoreMode = "merge"   // it is added; the same backup counts once
	Replace RestoreMode = "replace" // the counts become what the backup has
)

// Restored is what became of a backup.
type Restored struct {
	Mode   RestoreMode `json:"mode" enum:"merge,replace"`
	Taken  int64       `json:"taken" doc:"When the backup was taken, Unix seconds."`
	Again  bool        `json:"again" doc:"It was merged before as a whole: nothing was done."`
	Keys   uint64      `json:"keys" doc:"How many keys' windows were written."`
	Origin string      `json:"origin" doc:"ID of the backup in the journal."`
}

// TakenAt is Taken as a time.
func (r Restored) TakenAt() time.Time { return time.Unix(r.Taken, 0) }
