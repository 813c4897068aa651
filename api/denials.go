package api

import "time"

// DenialAnswer is why a request was denied, as it was then.
type DenialAnswer struct {
	ID        string          `json:"id" example:"n1-4v8k0zq2m1b7c"`
	Node      string          `json:"node,omitempty" doc:"The node of a cluster that was asked, and keeps this."`
	At        Time            `json:"at" doc:"When the request was denied, by the node's clock; the first of times."`
	Times     uint64          `json:"times" doc:"How many requests have this ID: within a second after at, denials by one limit of one key share it that are for as much, and filled by the same admissions." minimum:"1"`
	Last      Time            `json:"last" doc:"When the last of them was denied."`
	Limits    []DenialLimit   `json:"limits" nullable:"false" doc:"The limits that denied it, in their order, at most 4."`
	More      int             `json:"more,omitempty" doc:"Further limits that denied it."`
	Freshness DenialKnowledge `json:"freshness" doc:"What the node knew of other nodes' admissions then."`
}

// DenialKnowledge is Freshness at the time of a denial.
type DenialKnowledge struct {
	AsOf Time     `json:"as_of" doc:"Admissions of all nodes until then were known."`
	Late []string `json:"late,omitempty" doc:"Nodes that were late: of their admissions some may be missing."`
}

// DenialLimit is one limit that denied a request.
type DenialLimit struct {
	Name       string       `json:"name" doc:"Of the policy, or of the limit that the request brought along." example:"login"`
	Inline     bool         `json:"inline,omitempty" doc:"The request brought the limit along."`
	Asked      string       `json:"asked" doc:"The key of the request." example:"login:bob:10.0.0.1"`
	Key        string       `json:"key" doc:"The key that is counted." example:"login:bob"`
	Keys       string       `json:"keys,omitempty" doc:"The rule: keys of the policy, as it is now." example:"login:{user}:*"`
	By         string       `json:"by,omitempty" doc:"The rule: by of the policy, as it is now." example:"login:{user}"`
	Line       int          `json:"line,omitempty" doc:"Where the policy stands in the policy file, as it is now."`
	Override   bool         `json:"override,omitempty" doc:"The key has a limit of its own in the policy."`
	Changed    bool         `json:"changed,omitempty" doc:"The policy has another limit now, is for other keys, or is gone."`
	Where      string       `json:"where" enum:"shared,node,strict,leased" doc:"Which nodes count together, and who decides."`
	Away       string       `json:"away,omitempty" enum:"closed,open,share,own" doc:"The node that decides did not answer, and it was decided without it."`
	Banned     bool         `json:"banned,omitempty" doc:"The key was banned, until retry_at: what stands in used and remaining did not matter."`
	NoPart     bool         `json:"no_part,omitempty" doc:"A limit over regions of which the region that was asked has no part."`
	Others     uint64       `json:"others,omitempty" doc:"For a limit that regions share without parts: how many admissions of other regions were known and counted. admissions lists the admissions of the region that was asked."`
	Late       []string     `json:"late,omitempty" doc:"Of such a limit: regions, or nodes of them, of which newer admissions may have been missing."`
	Region     string       `json:"region,omitempty" doc:"Of a limit over regions (where: global): the region that was asked. limit and burst are of its part."`
	Regions    []RegionPart `json:"regions,omitempty" doc:"Of a limit over regions: what each may let pass of the burst, as the policy is now."`
	Whole      *EnoughLimit `json:"whole,omitempty" doc:"Of a limit over regions: the limit of all of them together, as the policy is now."`
	Elsewhere  bool         `json:"elsewhere,omitempty" doc:"Another node decided: admissions are those that this one knew of."`
	Limit      uint64       `json:"limit" doc:"How many per per_s."`
	PerSeconds float64      `json:"per_s"`
	Burst      uint64       `json:"burst" doc:"How many at once."`
	Algorithm  string       `json:"algorithm" enum:"window,fixed,gcra"`
	Calendar   string       `json:"calendar,omitempty" doc:"Of a quota by the calendar: its periods." example:"month from day 15, Europe/Berlin"`
	N          uint64       `json:"n" doc:"How many were asked for."`
	Used       uint64       `json:"used" doc:"How many of the burst were used up."`
	Remaining  uint64       `json:"remaining" doc:"How many were left."`
	RetryAt    *Time        `json:"retry_at,omitempty" doc:"When it would have passed, if nothing else happened; absent of more than the burst, which never passes."`
	ResetAt    Time         `json:"reset_at" doc:"When the whole burst would have been there again."`

	Admissions []Admission  `json:"admissions" nullable:"false" doc:"What filled the limit, the oldest first, as far as the algorithm knows the times."`
	Doubt      float64      `json:"doubt_s" doc:"By how many seconds each admission may have been earlier than its at: 0 of a window with a burst up to 256 and at most 32 admissions, else at most the interval."`
	Enough     *EnoughLimit `json:"enough,omitempty" doc:"The smallest limit that would have let it pass, with the same admissions before it; absent where none would have (banned, no_part), and where admissions of other regions counted (others)."`
}

// Per is PerSeconds as a duration.
func (l DenialLimit) Per() time.Duration { return fromSeconds(l.PerSeconds) }

// Admission is n admissions.
type Admission struct {
	At Time   `json:"at" doc:"The latest time at which they may have been."`
	N  uint64 `json:"n"`
}

// EnoughLimit is a limit that would have been enough.
type EnoughLimit struct {
	Limit      uint64  `json:"limit"`
	PerSeconds float64 `json:"per_s"`
	Burst      uint64  `json:"burst"`
}

// Per is PerSeconds as a duration.
func (l EnoughLimit) Per() time.Duration { return fromSeconds(l.PerSeconds) }

// WhoAnswer is the keys that limits deny now, most denied first.
type WhoAnswer struct {
	At            Time         `json:"at"`
	WindowSeconds int64        `json:"window_s" doc:"The keys were denied within so many seconds before."`
	Prefix        string       `json:"prefix,omitempty"`
	Node          string       `json:"node,omitempty" doc:"The node of a cluster whose denials these are."`
	Keys          []LimitedKey `json:"keys" nullable:"false"`
	Forgotten     uint64       `json:"forgotten,omitempty" doc:"Keys that left the list since the server's start, for others that are denied more: the list may lack some that are denied seldom."`
}

// LimitedKey is a key that a limit denies.
type LimitedKey struct {
	Limit             string  `json:"limit" doc:"Its name." example:"login"`
	Inline            bool    `json:"inline,omitempty" doc:"Requests bring the limit along."`
	Key               string  `json:"key" doc:"As it is counted." example:"login:bob"`
	Denied            uint64  `json:"denied" doc:"Requests that were denied within the window."`
	Since             Time    `json:"since" doc:"The first since the last pause of 5 minutes without a denial; it may be before the window."`
	Last              Time    `json:"last" doc:"The last denial."`
	RetryAfterSeconds float64 `json:"retry_after_s" doc:"Until one like the last would pass, if nothing else happens; 0: it would pass now."`
}
