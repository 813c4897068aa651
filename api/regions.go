package api

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
	Region string   `json:"region"`
	Self   bool     `json:"self,omitempty" doc:"It is the one that was asked."`
	Linked bool     `json:"linked,omitempty" doc:"There is a link to it; digests of others come by way of others."`
	Known  bool     `json:"known" doc:"Its hits are counted here."`
	Gone   bool     `json:"gone,omitempty" doc:"It was forgotten."`
	Base   bool     `json:"base,omitempty" doc:"Its whole state is on its way here."`
	Epoch  uint64   `json:"epoch" doc:"Of its digests: a new one began with its whole state. 0: none came."`
	Digest uint64   `json:"digest" doc:"The last one."`
	AsOf   Time     `json:"as_of" doc:"All hits that it took until then are counted here, by its clock, but for those of its late nodes."`
	EveryS float64  `json:"every_s" doc:"Seconds between its digests."`
	HeardS float64  `json:"heard_s" doc:"Seconds since the last one came."`
	LagS   float64  `json:"lag_s" doc:"Seconds from the as_of of the last one until it came, by this node's clock."`
	Late   bool     `json:"late,omitempty" doc:"Newer hits of it may be missing here."`
	Nodes  []Late   `json:"late_nodes,omitempty" doc:"Nodes of it that are late."`
	Bytes  uint64   `json:"bytes" doc:"Of its digests, since the start."`
	Keys   []string `json:"keys,omitempty" doc:"How keys begin that it tells other regions. Absent: it tells all."`
	Wrong  uint64   `json:"audit_wrong" doc:"Batches whose running total was not the next one, since the start: 0, unless something is lost."`
}

// RegionLink is a link by which a region pulls digests.
type RegionLink struct {
	Region  string  `json:"region"`
	URL     string  `json:"url"`
	Up      bool    `json:"up"`
	Why     string  `json:"why,omitempty" doc:"It is not up."`
	ForS    float64 `json:"for_s" doc:"Seconds since it is up, or is not."`
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
	Behind uint64  `json:"behind" doc:"Messages of the log of digests that it is still to be sent, of those that are here."`
}
