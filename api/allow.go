package api

import (
	"bytes"
	"encoding/json"
	"time"
)

// AllowObject is what POST /v1/allow is sent.
type AllowObject struct {
	_      struct{}     `additionalProperties:"false"`
	Key    string       `json:"key,omitempty" minLength:"1" maxLength:"512" example:"user:42" doc:"What is limited; 1 to 512 bytes. Required without checks."`
	Limit  AllowLimit   `json:"limit,omitempty,omitzero"`
	N      uint64       `json:"n,omitempty" minimum:"0" maximum:"35184372088832" default:"1" doc:"How many admissions; 0 asks only."`
	Costs  Costs        `json:"costs,omitempty"`
	Checks []AllowCheck `json:"checks,omitempty" minItems:"1" maxItems:"64" nullable:"false" doc:"Several in place of key, limit and n: taken all or none."`
	Peek   bool         `json:"peek,omitempty" doc:"Only say what would be decided."`
}

// AllowCheck asks limits for admissions of a key. The N of 0 stands for the default.
type AllowCheck struct {
	_     struct{}   `additionalProperties:"false"`
	Key   string     `json:"key" minLength:"1" maxLength:"512" example:"user:42" doc:"What is limited; 1 to 512 bytes."`
	Limit AllowLimit `json:"limit,omitempty,omitzero"`
	N     uint64     `json:"n,omitempty" minimum:"0" maximum:"35184372088832" default:"1" doc:"How many admissions; 0 asks only."`
	Costs Costs      `json:"costs,omitempty"`
}

// AllowAnswer is the answer to POST /v1/allow, when the request may pass and when not.
type AllowAnswer struct {
	Allowed           bool         `json:"allowed" doc:"The request may pass; what it asked for is taken."`
	Unmatched         bool         `json:"unmatched,omitempty" doc:"No policy is for any of the keys, so nothing limits the request."`
	RetryAfterSeconds float64      `json:"retry_after_s,omitempty" doc:"Until the request would be allowed, if nothing else happens; absent when it was."`
	Denial            string       `json:"denial,omitempty" doc:"Of a denial: its ID. GET /v1/denials/{id} says why." example:"4v8k0zq2m1b7c"`
	WaitedSeconds     float64      `json:"waited_s,omitempty" doc:"For how long the request waited for its turn, by a policy with wait: it may pass now. The header field Weir-Waited has it too."`
	Limits            []LimitState `json:"limits" nullable:"false" doc:"What each limit says, in the order of the checks, of each in the order of the policies."`
}

// RetryAfter is RetryAfterSeconds as a duration.
func (a AllowAnswer) RetryAfter() time.Duration { return fromSeconds(a.RetryAfterSeconds) }

// Waited is WaitedSeconds as a duration.
func (a AllowAnswer) Waited() time.Duration { return fromSeconds(a.WaitedSeconds) }

// LimitState is what one limit says of a request.
type LimitState struct {
	Name              string  `json:"name" doc:"Of the policy, or of the limit that the request brought along." example:"login"`
	Key               string  `json:"key" doc:"The key that is counted: by of the policy may make another one of the request's." example:"login:bob"`
	Mode              string  `json:"mode" enum:"enforce,shadow" doc:"shadow denies nothing: it says what it would have denied."`
	Allowed           bool    `json:"allowed" doc:"What this limit says by itself. When another one denies the request, nothing is taken of this one either."`
	Never             bool    `json:"never,omitempty" doc:"More was asked than the burst of a shadow limit; one that is enforced answers that with the problem invalid_count."`
	Banned            bool    `json:"banned,omitempty" doc:"The key is banned for retry_after_s, whatever it has used: by hand, or as deny_for of the policy says."`
	Warning           bool    `json:"warning,omitempty" doc:"As much of the burst is used as warn of the policy says; the header field Weir-Warning names such limits."`
	Away              string  `json:"away,omitempty" enum:"closed,open,own" doc:"The node that decides this limit did not answer, and it was decided without it: a strict one as its policy says, denied or admitted; a shared one by what this node itself has admitted (own)."`
	NoPart            bool    `json:"no_part,omitempty" doc:"A limit over regions (where: global) of which the region that was asked has no part: it denies there, until the policy names the region."`
	N                 uint64  `json:"n" doc:"How many were asked for."`
	Limit             uint64  `json:"limit" doc:"How many per per_s. Of a limit over regions it is the part of the region that was asked, per the interval in which the burst comes back."`
	PerSeconds        float64 `json:"per_s" doc:"The period in seconds."`
	Burst             uint64  `json:"burst" doc:"How many at once: at most burst in any per_s * burst / limit seconds."`
	Calendar          string  `json:"calendar,omitempty" doc:"For a calendar quota: its periods. reset_s is the time until the quota is full again." example:"month from day 15, Europe/Berlin"`
	Remaining         uint64  `json:"remaining" doc:"How many would be allowed now."`
	RetryAfterSeconds float64 `json:"retry_after_s,omitempty" doc:"Until this limit would allow it; absent when it did."`
	ResetSeconds      float64 `json:"reset_s" doc:"Until the whole burst is there again."`
}

// Per is PerSeconds as a duration.
func (l LimitState) Per() time.Duration { return fromSeconds(l.PerSeconds) }

// RetryAfter is RetryAfterSeconds as a duration.
func (l LimitState) RetryAfter() time.Duration { return fromSeconds(l.RetryAfterSeconds) }

// Reset is ResetSeconds as a duration.
func (l LimitState) Reset() time.Duration { return fromSeconds(l.ResetSeconds) }

// ReserveAnswer is the answer to POST /v1/reserve: an AllowAnswer, and the ID of the reservation.
type ReserveAnswer struct {
	ID    string `json:"id,omitempty" doc:"To settle it by; absent from a denial, and where no limit is for the key."`
	Known bool   `json:"known,omitempty" doc:"The ID was known: nothing more was taken, and limits is empty."`
	AllowAnswer
}

// SettleRequest is how much of a reservation was used.
type SettleRequest struct {
	_    struct{} `additionalProperties:"false"`
	ID   string   `json:"id" maxLength:"64" doc:"Of the reservation."`
	Used Used     `json:"used"`
	Over string   `json:"over,omitempty" enum:"deny,debt" doc:"Usage beyond the reservation: counts only if the limit permits all of it (deny, the default), or in any case (debt)."`
}

// Outcome is the name of the status of an answer among the costs of Used: policies with count_if have used all or nothing by it.
const Outcome = "status"

// Used is one number for all limits of a reservation, or one for each cost: "requests" is the number for limits without a cost.
type Used struct {
	N     uint64
	Costs Costs // nil: N
}

// MarshalJSON writes a number or an object.
func (u Used) MarshalJSON() ([]byte, error) {
	if u.Costs != nil {
		return json.Marshal(u.Costs)
	}
	return json.Marshal(u.N)
}

// UnmarshalJSON reads a number or an object.
func (u *Used) UnmarshalJSON(b []byte) error {
	*u = Used{}
	if bytes.HasPrefix(b, []byte("{")) {
		return json.Unmarshal(b, &u.Costs)
	}
	return json.Unmarshal(b, &u.N)
}

// SettleAnswer is what came of settling a reservation.
type SettleAnswer struct {
	ID     string         `json:"id"`
	Again  bool           `json:"again,omitempty" doc:"It had been settled before: used and over are of then, and nothing has changed now."`
	Over   uint64         `json:"over,omitempty" doc:"Usage beyond the reservation that does not count because a limit is full: the maximum of all limits."`
	Limits []LimitSettled `json:"limits" nullable:"false"`
}

// LimitSettled is what a reservation had of one limit.
type LimitSettled struct {
	Name      string `json:"name" example:"tokens"`
	Key       string `json:"key" doc:"As it is counted." example:"team:7"`
	Reserved  uint64 `json:"reserved"`
	Used      uint64 `json:"used" doc:"That count as used."`
	Refunded  uint64 `json:"refunded" doc:"By how many more would be allowed for it."`
	Over      uint64 `json:"over,omitempty" doc:"Usage beyond the reservation that does not count because the limit is full."`
	Remaining uint64 `json:"remaining" doc:"How many would be allowed now."`
}

// PermitAnswer is a permit that was taken, or renewed.
type PermitAnswer struct {
	ID         string  `json:"id" doc:"Names the permit: for heartbeats, and to give it back."`
	TTLSeconds float64 `json:"ttl_s" doc:"Seconds after the last heartbeat was sent until the permit is free again. Send a heartbeat every third of this time."`
	Unmatched  bool    `json:"unmatched,omitempty" doc:"No limit with max is for the key: nothing limits how many there are."`
}

// TTL is TTLSeconds as a duration.
func (p PermitAnswer) TTL() time.Duration { return fromSeconds(p.TTLSeconds) }

// ReleaseAnswer is what became of a permit that was given back.
type ReleaseAnswer struct {
	Released bool `json:"released" doc:"false: it was not held, or no longer."`
}

// AtOnceLimit is an entry of the policy file that limits how many are at work at once.
type AtOnceLimit struct {
	Name       string  `json:"name" example:"jobs"`
	Keys       string  `json:"keys" doc:"The keys of requests that it is for." example:"job:{customer}:*"`
	By         string  `json:"by,omitempty" doc:"The key that is counted; absent: the request's own." example:"job:{customer}"`
	Version    uint64  `json:"version,omitempty" doc:"Of a policy that was put by API (/v1/policies); absent: it is of the file." example:"7"`
	Max        int     `json:"max" doc:"How many permits of a key are held at once."`
	TTLSeconds float64 `json:"ttl_s" doc:"After how long a silent holder's permit is free."`
	Held       int     `json:"held" doc:"Permits that are held now, of all keys."`
	HeldKeys   int     `json:"held_keys" doc:"Keys of which permits are held now."`
}

// HitsAnswer is what became of a body of hits: the answer of POST /v1/hits, and part of its problem documents.
type HitsAnswer struct {
	Counted       uint64         `json:"counted" doc:"Hits counted (the sum of n), late ones included."`
	Late          uint64         `json:"late" doc:"How many of counted were older than the newest hit of their key."`
	History       uint64         `json:"history,omitempty" doc:"How many of counted were older than the retention: the history has them, and no window."`
	TooLate       uint64         `json:"too_late" doc:"Hits not counted: older than the retention, and than the days that the history keeps."`
	RejectedLines int            `json:"rejected_lines" doc:"Lines not counted because of what they say."`
	Rejected      []RejectedLine `json:"rejected" nullable:"false" doc:"The first 20 of them."`
	RetryFrom     int            `json:"retry_from,omitempty" doc:"The journal is behind: this line and those after it were refused as overloaded. Send them again later, under another Idempotency-Key."`
	Durable       bool           `json:"durable,omitempty" doc:"The hits counted are on disk."`
}

// WebAnswer is what became of page views: the answer of POST /v1/web.
type WebAnswer struct {
	Counted  int `json:"counted" doc:"Views and events counted."`
	Filtered int `json:"filtered" doc:"Those not counted: of crawlers, or more than a visitor may have. SITE:bot counts them."`
}

// MaxRejected is how many rejected lines a HitsAnswer lists.
const MaxRejected = 20

// RejectedLine is why a hit was not counted.
type RejectedLine struct {
	Line    int    `json:"line" doc:"Number of the line, or of the element of an array, from 1."`
	Code    Code   `json:"code" example:"invalid_count" doc:"Stable name of the reason."`
	Message string `json:"message"`
}

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
	Range      string       `json:"range,omitempty" doc:"The address range whose limit it has." example:"10.1.0.0/16"`
	Changed    bool         `json:"changed,omitempty" doc:"The policy has another limit now, is for other keys, or is gone."`
	Where      string       `json:"where" enum:"shared,node,strict,leased" doc:"Which nodes count together, and who decides."`
	Away       string       `json:"away,omitempty" enum:"closed,open,own" doc:"The node that decides did not answer, and it was decided without it."`
	Banned     bool         `json:"banned,omitempty" doc:"The key was banned, until retry_at: what stands in used and remaining did not matter."`
	NoPart     bool         `json:"no_part,omitempty" doc:"A limit over regions of which the region that was asked has no part."`
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
	Enough     *EnoughLimit `json:"enough,omitempty" doc:"The smallest limit that would have let it pass, with the same admissions before it; absent where none would have (banned, no_part)."`
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
	Denial            string  `json:"denial,omitempty" doc:"The ID of the newest denial, for /v1/denials; absent: it is not kept."`
}
