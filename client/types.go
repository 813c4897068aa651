package client

import "github.com/weir-counter/weir/api"

// What a server answers: the types that it writes, of package api.
type (
	// Time is a point in time that JSON carries as Unix seconds.
	Time = api.Time
	// Bounds is a count: Lower <= the true number <= *Upper.
	Bounds = api.Bounds
	// PerSecond is the mean rate of a count over its window, with its bounds.
	PerSecond = api.PerSecond
	// Freshness says how much of the newest hits is in an answer.
	Freshness = api.Freshness
	// Late is a node of which hits may be missing: it is not heard of, or lags.
	Late = api.Late

	// Count is the hits of a key in (At-Window, At].
	Count = api.CountAnswer
	// Rate is a count with its mean hits per second.
	Rate = api.RateAnswer
	// Top lists keys, most hits first.
	Top = api.TopAnswer
	// TopKey is one line of a Top.
	TopKey = api.TopKey
	// Series is the hits of a key in adjoining windows.
	Series = api.SeriesAnswer
	// Point is the hits in (At-Step, At].
	Point = api.Point
	// Keys lists keys, sorted by their bytes.
	Keys = api.KeysAnswer

	// Overview is the view of all keys: hits now and over time, and the keys that have most.
	Overview = api.OverviewAnswer
	// AllHits are the hits of all keys together.
	AllHits = api.AllHits
	// OverviewKey is one key of an Overview.
	OverviewKey = api.KeyView
	// KeyView is one key in the usual windows, and over time.
	KeyView = api.KeyAnswer
	// KeyWindow is the count of a key in one window, and in the one before.
	KeyWindow = api.KeyWindow
	// Line is the hits in adjoining parts of a window.
	Line = api.Line
	// LimitsView is the policies with their decisions over time.
	LimitsView = api.LimitsView
	// LimitLines are the decisions of a policy over time.
	LimitLines = api.LimitLines
	// NodesView is the nodes that count together, and what the one that is asked holds.
	NodesView = api.NodesView

	// Decision is the answer to checks of limits.
	Decision = api.AllowAnswer
	// LimitState is what one limit says of a check.
	LimitState = api.LimitState
	// Limits is the policies of a server, in order of application.
	Limits = api.LimitsAnswer
	// LimitPolicy is one policy, and how it decided lately.
	LimitPolicy = api.LimitPolicy
	// RegionPart is what a region has of a limit over regions.
	RegionPart = api.RegionPart
	// PolicyFile is where policies come from.
	PolicyFile = api.PolicyFileState
	// LimitKeys is the keys that have used most of a limit.
	LimitKeys = api.LimitKeysAnswer
	// LimitKey is what one key has used of a limit.
	LimitKey = api.LimitKey
	// Denial is why a request was denied, as it was then.
	Denial = api.DenialAnswer
	// DenialLimit is one limit that denied a request.
	DenialLimit = api.DenialLimit
	// Who is the keys that limits deny now.
	Who = api.WhoAnswer
	// LimitedKey is a key that a limit denies.
	LimitedKey = api.LimitedKey

	// Stats is what a server holds and what it dropped.
	Stats = api.StatsAnswer
	// Journal is what a server tells of its journal, since its start.
	Journal = api.JournalStats
	// Alarm is something that is wrong with a server.
	Alarm = api.Alarm

	// Cluster is the nodes that count together, as one of them sees them.
	Cluster = api.ClusterAnswer
	// Node is one that counts hits.
	Node = api.ClusterNode
	// ClusterServer is a NATS server that answered.
	ClusterServer = api.ClusterServer
	// Route is a connection to another node.
	Route = api.ClusterRoute
	// ClusterJournal is the journal that the nodes share.
	ClusterJournal = api.ClusterJournal
	// RemovedNode is what became of a node that was removed.
	RemovedNode = api.RemovedAnswer
	// Stream is what nodes keep together: the journal, the snapshots, the leases.
	Stream = api.ClusterStream

	// Regions is the regions that count together, as one node sees them.
	Regions = api.RegionsAnswer
	// Region is one of them.
	Region = api.Region
	// RegionLink is a link by which a region pulls digests.
	RegionLink = api.RegionLink

	// RegionPull is what one other region has pulled from a node.
	RegionPull = api.RegionPull
	// RegionCount is the part of one region in a count.
	RegionCount = api.RegionCount

	// RestoreMode says what becomes of the counts that a server has.
	RestoreMode = api.RestoreMode
	// Restored is what became of a backup.
	Restored = api.Restored

	// Rejection is why the server did not count a hit. Its line is the place of the hit
	// in what was sent, from 1.
	Rejection = api.RejectedLine
)

// What a backup does to the counts that are there.
const (
	Merge   = api.Merge   // it is added; the same backup counts once
	Replace = api.Replace // the counts become those of the backup
)
