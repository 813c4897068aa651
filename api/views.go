package api

// A view is what a page of the dashboard shows, in one answer.

// OverviewAnswer is the view of all keys.
type OverviewAnswer struct {
	WindowSeconds int64     `json:"window_s" doc:"The window in seconds."`
	At            Time      `json:"at" doc:"The end of the window."`
	All           *AllHits  `json:"all,omitempty" doc:"Hits of all keys together; absent where the identity may read some keys only."`
	Keys          []KeyView `json:"keys" nullable:"false" doc:"Most hits in the window first."`
	Alarms        []Alarm   `json:"alarms,omitempty" doc:"What is wrong now, for identities that may read all keys."`
	Freshness
}

// AllHits are the hits of all keys together.
type AllHits struct {
	PerSecond PerSecond `json:"per_second" doc:"The mean rate of the newest 5 seconds."`
	Hits      Bounds    `json:"hits" doc:"In the window."`
	Before    Bounds    `json:"before" doc:"In the window before."`
	Keys      int       `json:"keys" doc:"Keys in memory."`
	Line      Line      `json:"line"`
}

// KeyView is one key of an OverviewAnswer.
type KeyView struct {
	Key string `json:"key"`
	Bounds
	Before Bounds   `json:"before" doc:"Hits in the window before."`
	Line   []uint64 `json:"line" nullable:"false" doc:"Estimates of adjoining parts of the window, the oldest first; the last one has just begun."`
}

// Line is the hits in adjoining parts of a window. The first part is (from, from+step], and the last one
// ends at to, so that it may be shorter than step. Parts begin and end where the memory of counters does, so
// that they are exact where the whole window is known.
type Line struct {
	From        Time      `json:"from" doc:"The start of the first part."`
	StepSeconds int64     `json:"step_s"`
	To          Time      `json:"to" doc:"The end of the last step, which may be shorter than step_s."`
	Estimate    []uint64  `json:"estimate" nullable:"false"`
	Lower       []uint64  `json:"lower,omitempty" doc:"Absent when all parts are exact."`
	Upper       []*uint64 `json:"upper,omitempty" doc:"Absent when all parts are exact; null: no upper bound is known."`
}

// KeyAnswer is the view of one key.
type KeyAnswer struct {
	Key           string      `json:"key"`
	WindowSeconds int64       `json:"window_s" doc:"The window of the lines, in seconds."`
	At            Time        `json:"at"`
	Counts        []KeyWindow `json:"counts" nullable:"false" doc:"Windows of 1 minute, 5 minutes, 1 hour, 1 day and 1 week."`
	Line          Line        `json:"line"`
	Before        []uint64    `json:"before" nullable:"false" doc:"Estimates of the same parts one window earlier."`
	With          []OtherKey  `json:"with,omitempty" doc:"The same fields for the other keys that were named."`
	Regions       []KeyRegion `json:"regions,omitempty" doc:"Each region's part, if the server belongs to a region."`
	Freshness
}

// KeyRegion is what one region has counted of a key.
type KeyRegion struct {
	Region string   `json:"region"`
	Counts []Bounds `json:"counts" nullable:"false" doc:"In the windows of counts."`
	Freshness
}

// Spend is what a key has used of a policy with a cost, over time.
type Spend struct {
	Key  string `json:"key"`
	Line Line   `json:"line"`
}

// OtherKey is a key whose line is compared with another key.
type OtherKey struct {
	Key  string   `json:"key"`
	Line []uint64 `json:"line" nullable:"false" doc:"Estimates."`
}

// KeyWindow is the count of a key in one window.
type KeyWindow struct {
	WindowSeconds int64 `json:"window_s"`
	Bounds
	Before Bounds `json:"before" doc:"In the window before."`
}

// SiteView is the page of a web site whose views count.
type SiteView struct {
	Site     string    `json:"site,omitempty"`
	Sites    []string  `json:"sites,omitempty" doc:"Without site: the sites that the caller may read."`
	Public   bool      `json:"public,omitempty" doc:"Everybody may read the page, and who asks has no identity."`
	From     Time      `json:"from" doc:"The first second of the period."`
	To       Time      `json:"to" doc:"The last second of the period, or now."`
	Unit     string    `json:"unit,omitempty" doc:"What the points of line are: hour, day or month."`
	Now      *Distinct `json:"now,omitempty" doc:"Visitors of the last 5 minutes, whatever the period."`
	Visitors *Distinct `json:"visitors,omitempty" doc:"Of the period: each counts anew every day. Absent where the period began before the retention, without history."`
	Views    Bounds    `json:"views"`
	Filtered Bounds    `json:"filtered" doc:"Views that do not count: of crawlers, for example."`
	Line     []Point   `json:"line" nullable:"false" doc:"Views over the period."`
	Zone     string    `json:"tz,omitempty" doc:"The time zone of days."`
	Source   string    `json:"source,omitempty" doc:"history if the numbers are of history, else windows."`
	Lists    []SiteTop `json:"lists" nullable:"false"`
	Freshness
}

// SiteTop is what a site has most of, such as pages.
type SiteTop struct {
	Class string   `json:"class" doc:"What the keys are: SITE:class:NAME." example:"path"`
	Names []TopKey `json:"names" nullable:"false" doc:"Most views first; names without the key's prefix."`
}

// LimitsView is the view of the policies.
type LimitsView struct {
	LimitsAnswer
	Lines []LimitLines `json:"lines" nullable:"false" doc:"For each of limits the decisions in adjoining parts of the window."`
	More  int          `json:"more,omitempty" doc:"Policies that are left out: a view has 100 at most."`
	Of    string       `json:"of,omitempty" doc:"The policy whose keys follow."`
	Keys  []LimitKey   `json:"keys" nullable:"false" doc:"The keys that have used most of the limit, by share of their burst."`

	Spend []Spend `json:"spend,omitempty" doc:"Of a policy with a cost: what the first of keys have used in adjoining parts of the window: hits of limit:NAME:spent:KEY."`

	Denied    []LimitedKey `json:"denied_keys,omitempty" doc:"The keys that this node denied most in the last 5 minutes."`
	MayChange bool         `json:"may_change,omitempty" doc:"Who asks may reset and grant it."`
	Freshness
}

// LimitLines are the decisions of a policy in adjoining parts of a window, as Line has them.
type LimitLines struct {
	Name         string `json:"name"`
	Allowed      Line   `json:"allowed"`
	Denied       Line   `json:"denied"`
	ShadowDenied Line   `json:"shadow_denied"`
}

// NodesView is the view of the cluster.
type NodesView struct {
	Cluster ClusterAnswer  `json:"cluster"`
	Stats   StatsAnswer    `json:"stats"`
	Regions *RegionsAnswer `json:"regions,omitempty" doc:"The regions as the asked node sees them, if it belongs to one."`
}

// LogView is the live log: hits and denials of one node as they come.
type LogView struct {
	Since   Time       `json:"since" doc:"The start of the interval that hits and denials are about; at is its end."`
	At      Time       `json:"at"`
	Node    string     `json:"node,omitempty" doc:"The node that took them, of a cluster: others have a log of their own."`
	Events  []LogEvent `json:"events" nullable:"false" doc:"The newest first: of the last 100 hits and 100 denials that were shown."`
	Hits    LogShare   `json:"hits" doc:"How much of the hits of the interval is shown."`
	Denials LogShare   `json:"denials"`
}

// LogShare says how much of an interval is shown.
type LogShare struct {
	Shown int    `json:"shown" doc:"How many, 10 at most."`
	OneIn uint64 `json:"one_in" doc:"One of so many is shown; 1: all are."`
}

// LogEvent is a hit or a denial.
type LogEvent struct {
	Number uint64 `json:"number" doc:"Records of one stream with the same kind and number are the same."`
	Kind   string `json:"kind" enum:"hit,denial"`
	At     Time   `json:"at" doc:"When the node took it."`
	Of     *Time  `json:"of,omitempty" doc:"The hit's time, if it differs from now by 2 s or more."`
	Key    string `json:"key" doc:"For a denial: the requested key."`
	N      uint64 `json:"n" doc:"How many hits, or admissions."`
	Limit  string `json:"limit,omitempty" doc:"The limit that denied it; of several the first."`
	Denial string `json:"denial,omitempty" doc:"The ID of the denial."`
}
