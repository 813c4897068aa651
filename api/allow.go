package api

import "time"

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
	Name              string   `json:"name" doc:"Of the policy, or of the limit that the request brought along." example:"login"`
	Key               string   `json:"key" doc:"The key that is counted: by of the policy may make another one of the request's." example:"login:bob"`
	Mode              string   `json:"mode" enum:"enforce,shadow" doc:"shadow denies nothing: it says what it would have denied."`
	Allowed           bool     `json:"allowed" doc:"What this limit says by itself. When another one denies the request, nothing is taken of this one either."`
	Never             bool     `json:"never,omitempty" doc:"More was asked than the burst of a shadow limit; one that is enforced answers that with the problem invalid_count."`
	Banned            bool     `json:"banned,omitempty" doc:"The key is banned for retry_after_s, whatever it has used: by hand, or as deny_for of the policy says."`
	Warning           bool     `json:"warning,omitempty" doc:"As much of the burst is used as warn of the policy says; the header field Weir-Warning names such limits."`
	Away              string   `json:"away,omitempty" enum:"closed,open,share,own" doc:"The node that decides this limit did not answer, and it was decided without it: a strict one as its policy says, denied, admitted, or by this node's share; a shared one by what this node itself has admitted (own)."`
	NoPart            bool     `json:"no_part,omitempty" doc:"A limit over regions (where: global) of which the region that was asked has no part: it denies there, until the policy names the region."`
	Others            uint64   `json:"others,omitempty" doc:"Of a limit that regions share without parts: how many admissions of other regions were known, and counted."`
	Late              []string `json:"late,omitempty" doc:"Of such a limit: regions, or nodes of them, of which newer admissions may have been missing."`
	N                 uint64   `json:"n" doc:"How many were asked for."`
	Limit             uint64   `json:"limit" doc:"How many per per_s. Of a limit over regions it is the part of the region that was asked, per the interval in which the burst comes back."`
	PerSeconds        float64  `json:"per_s" doc:"The period in seconds."`
	Burst             uint64   `json:"burst" doc:"How many at once: at most burst in any per_s * burst / limit seconds."`
	Calendar          string   `json:"calendar,omitempty" doc:"Of a quota by the calendar: its periods. reset_s is until the next edge, where all of it is there again." example:"month from day 15, Europe/Berlin"`
	Remaining         uint64   `json:"remaining" doc:"How many would be allowed now."`
	RetryAfterSeconds float64  `json:"retry_after_s,omitempty" doc:"Until this limit would allow it; absent when it did."`
	ResetSeconds      float64  `json:"reset_s" doc:"Until the whole burst is there again."`
}

// Per is PerSeconds as a duration.
func (l LimitState) Per() time.Duration { return fromSeconds(l.PerSeconds) }

// RetryAfter is RetryAfterSeconds as a duration.
func (l LimitState) RetryAfter() time.Duration { return fromSeconds(l.RetryAfterSeconds) }

// Reset is ResetSeconds as a duration.
func (l LimitState) Reset() time.Duration { return fromSeconds(l.ResetSeconds) }
