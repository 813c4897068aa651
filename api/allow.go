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
	Peek   bool         `json:"peek,omitempty" doc:"Only report the decision; take nothing."`
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
	Allowed           bool         `json:"allowed" doc:"The request may pass, and its cost is taken."`
	Unmatched         bool         `json:"unmatched,omitempty" doc:"No policy is for any of the keys, so nothing limits the request."`
	RetryAfterSeconds float64      `json:"retry_after_s,omitempty" doc:"Seconds until the request would be allowed, if nothing else happens; absent if it was allowed."`
	Denial            string       `json:"denial,omitempty" doc:"ID of the denial. GET /v1/denials/{id} explains it." example:"4v8k0zq2m1b7c"`
	WaitedSeconds     float64      `json:"waited_s,omitempty" doc:"For how long the request waited for its turn, by a policy with wait: it may pass now. The header field Weir-Waited has it too."`
	Limits            []LimitState `json:"limits" nullable:"false" doc:"Each limit's answer, in the order of checks and policies."`
}

// RetryAfter is RetryAfterSeconds as a duration.
func (a AllowAnswer) RetryAfter() time.Duration { return fromSeconds(a.RetryAfterSeconds) }

// Waited is WaitedSeconds as a duration.
func (a AllowAnswer) Waited() time.Duration { return fromSeconds(a.WaitedSeconds) }

// LimitState is what one limit says of a request.
type LimitState struct {
	Name              string  `json:"name" doc:"Of the policy, or of the limit that the request brought along." example:"login"`
	Key               string  `json:"key" doc:"The key that is counted, after the policy's by." example:"login:bob"`
	Mode              string  `json:"mode" enum:"enforce,shadow" doc:"shadow denies nothing; it reports what it would have denied."`
	Allowed           bool    `json:"allowed" doc:"This limit's own answer. If another limit denies the request, nothing is taken from this one either."`
	Never             bool    `json:"never,omitempty" doc:"The request was for more than the burst of a shadow limit. An enforced limit answers with the problem invalid_count."`
	Banned            bool    `json:"banned,omitempty" doc:"The key is banned for retry_after_s, whatever it has used: by hand or by the policy's deny_for."`
	Warning           bool    `json:"warning,omitempty" doc:"The key has reached the policy's warning level (warn). The header field Weir-Warning names such limits."`
	Away              string  `json:"away,omitempty" enum:"closed,open,own" doc:"The owner did not answer, and the limit was decided without it, as away of the policy says."`
	NoPart            bool    `json:"no_part,omitempty" doc:"The limit is divided among regions (where: global), and the asked region has no part of it: it denies there until the policy names the region."`
	N                 uint64  `json:"n" doc:"The requested number."`
	Limit             uint64  `json:"limit" doc:"Admissions per per_s. For a limit divided among regions: the asked region's part, per interval of the burst."`
	PerSeconds        float64 `json:"per_s" doc:"The period in seconds."`
	Burst             uint64  `json:"burst" doc:"How many at once: at most burst in any per_s * burst / limit seconds."`
	Calendar          string  `json:"calendar,omitempty" doc:"For a calendar quota: its periods. reset_s is the time until the quota is full again." example:"month from day 15, Europe/Berlin"`
	Remaining         uint64  `json:"remaining" doc:"Admissions that are possible now."`
	RetryAfterSeconds float64 `json:"retry_after_s,omitempty" doc:"Seconds until this limit would allow the request; absent if it did."`
	ResetSeconds      float64 `json:"reset_s" doc:"Time until the whole burst is free again."`
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
	Over string   `json:"over,omitempty" enum:"deny,debt" doc:"Use beyond the reservation counts only if all of it fits (deny, the default), or always (debt)."`
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

// LimitSettled is the part of a reservation in one limit.
type LimitSettled struct {
	Name      string `json:"name" example:"tokens"`
	Key       string `json:"key" doc:"The key as it is counted." example:"team:7"`
	Reserved  uint64 `json:"reserved"`
	Used      uint64 `json:"used" doc:"That count as used."`
	Refunded  uint64 `json:"refunded" doc:"Additional admissions that are possible now."`
	Over      uint64 `json:"over,omitempty" doc:"Usage beyond the reservation that does not count because the limit is full."`
	Remaining uint64 `json:"remaining" doc:"Admissions that are possible now."`
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
	Keys       string  `json:"keys" doc:"Pattern of the keys to which it applies." example:"job:{customer}:*"`
	By         string  `json:"by,omitempty" doc:"The key that is counted; absent if it is the request's." example:"job:{customer}"`
	Version    uint64  `json:"version,omitempty" doc:"Version of a policy set by API (/v1/policies); absent for a policy of the file." example:"7"`
	Max        int     `json:"max" doc:"How many permits of a key are held at once."`
	TTLSeconds float64 `json:"ttl_s" doc:"After how long a silent holder's permit is free."`
	Held       int     `json:"held" doc:"Permits that are held now, of all keys."`
	HeldKeys   int     `json:"held_keys" doc:"Keys with held permits."`
}

// HitsAnswer is what became of a body of hits: the answer of POST /v1/hits, and part of its problem documents.
type HitsAnswer struct {
	Counted       uint64         `json:"counted" doc:"Hits counted (the sum of n), including late ones."`
	Late          uint64         `json:"late" doc:"How many of counted were older than the newest hit of their key."`
	History       uint64         `json:"history,omitempty" doc:"How many of counted were older than the retention: the history has them, and no window."`
	TooLate       uint64         `json:"too_late" doc:"Hits not counted: older than the retention, and than the days that the history keeps."`
	RejectedLines int            `json:"rejected_lines" doc:"Lines that were rejected for their content."`
	Rejected      []RejectedLine `json:"rejected" nullable:"false" doc:"The first 20 rejected lines."`
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
	Node      string          `json:"node,omitempty" doc:"The cluster node that was asked and stores this."`
	At        Time            `json:"at" doc:"When the request was denied, by the node's clock; the first of times."`
	Times     uint64          `json:"times" doc:"Requests with this ID. Equal denials of one key by one limit within a second after at share an ID." minimum:"1"`
	Last      Time            `json:"last" doc:"Time of the last denial."`
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
	Keys       string       `json:"keys,omitempty" doc:"The policy's current keys." example:"login:{user}:*"`
	By         string       `json:"by,omitempty" doc:"The policy's current by." example:"login:{user}"`
	Line       int          `json:"line,omitempty" doc:"Current line of the policy in its file."`
	Override   bool         `json:"override,omitempty" doc:"The key has a limit of its own in the policy."`
	Range      string       `json:"range,omitempty" doc:"The address range whose override applies." example:"10.1.0.0/16"`
	Changed    bool         `json:"changed,omitempty" doc:"The policy has another limit now, is for other keys, or is gone."`
	Where      string       `json:"where" enum:"shared,node,strict,leased" doc:"Which nodes count together, and who decides."`
	Away       string       `json:"away,omitempty" enum:"closed,open,own" doc:"The node that decides did not answer, and it was decided without it."`
	Banned     bool         `json:"banned,omitempty" doc:"The key was banned until retry_at, whatever used and remaining say."`
	NoPart     bool         `json:"no_part,omitempty" doc:"The limit is divided among regions, and the asked region has no part of it."`
	Region     string       `json:"region,omitempty" doc:"For a limit divided among regions (where: global): the asked region. limit and burst are its part."`
	Regions    []RegionPart `json:"regions,omitempty" doc:"For a limit divided among regions: each region's part of the burst, by the current policy."`
	Whole      *WholeLimit  `json:"whole,omitempty" doc:"For a limit divided among regions: the whole limit, by the current policy."`
	Elsewhere  bool         `json:"elsewhere,omitempty" doc:"Another node decided; admissions are the ones that this node knew."`
	Limit      uint64       `json:"limit" doc:"How many per per_s."`
	PerSeconds float64      `json:"per_s"`
	Burst      uint64       `json:"burst" doc:"How many at once."`
	Algorithm  string       `json:"algorithm" enum:"window,fixed,gcra"`
	Calendar   string       `json:"calendar,omitempty" doc:"Of a quota by the calendar: its periods." example:"month from day 15, Europe/Berlin"`
	N          uint64       `json:"n" doc:"The requested number."`
	Used       uint64       `json:"used" doc:"How many of the burst were used up."`
	Remaining  uint64       `json:"remaining" doc:"How many were left."`
	RetryAt    *Time        `json:"retry_at,omitempty" doc:"When the request would have passed if nothing else had happened; absent if it was for more than the burst."`
	ResetAt    Time         `json:"reset_at" doc:"When the whole burst would have been free again."`

	Admissions []Admission `json:"admissions" nullable:"false" doc:"What filled the limit, the oldest first, as far as the algorithm knows the times."`
	Doubt      float64     `json:"doubt_s" doc:"By how many seconds each admission may have been earlier than its at: 0 of a window with a burst up to 256 and at most 32 admissions, else at most the interval."`
}

// Per is PerSeconds as a duration.
func (l DenialLimit) Per() time.Duration { return fromSeconds(l.PerSeconds) }

// Admission is n admissions.
type Admission struct {
	At Time   `json:"at" doc:"The latest possible time of these admissions."`
	N  uint64 `json:"n"`
}

// WholeLimit is a limit that regions divide.
type WholeLimit struct {
	Limit      uint64  `json:"limit"`
	PerSeconds float64 `json:"per_s"`
	Burst      uint64  `json:"burst"`
}

// Per is PerSeconds as a duration.
func (l WholeLimit) Per() time.Duration { return fromSeconds(l.PerSeconds) }

// WhoAnswer is the keys that limits deny now, most denied first.
type WhoAnswer struct {
	At            Time         `json:"at"`
	WindowSeconds int64        `json:"window_s" doc:"The time before at, in seconds, within which the keys were denied."`
	Prefix        string       `json:"prefix,omitempty"`
	Node          string       `json:"node,omitempty" doc:"The node of a cluster whose denials these are."`
	Keys          []LimitedKey `json:"keys" nullable:"false"`
	Forgotten     uint64       `json:"forgotten,omitempty" doc:"Keys that left the list since the server's start, for others that are denied more: the list may lack some that are denied seldom."`
}

// LimitedKey is a key that a limit denies.
type LimitedKey struct {
	Limit             string  `json:"limit" doc:"Its name." example:"login"`
	Inline            bool    `json:"inline,omitempty" doc:"Requests bring the limit along."`
	Key               string  `json:"key" doc:"The key as it is counted." example:"login:bob"`
	Denied            uint64  `json:"denied" doc:"Requests that were denied within the window."`
	Since             Time    `json:"since" doc:"The first denial since the last 5 minutes without one; it may be before the window."`
	Last              Time    `json:"last" doc:"Time of the last denial."`
	RetryAfterSeconds float64 `json:"retry_after_s" doc:"Seconds until a request like the last would pass, if nothing else happens; 0: now."`
	Denial            string  `json:"denial,omitempty" doc:"ID of the newest denial (GET /v1/denials/{id}); absent if it is no longer stored."`
}
