package api

import (
	"encoding/json"
	"time"
)

// LimitsAnswer is the policies of a server, in order of application, then the limits of
// its listeners, and how they decided in (At-Window, At].
type LimitsAnswer struct {
	WindowSeconds int64            `json:"window_s" doc:"The window of allowed and denied, in seconds."`
	At            Time             `json:"at" doc:"The end of the window."`
	File          *PolicyFileState `json:"file,omitempty" doc:"The policy file; absent when the server has none."`
	Limits        []LimitPolicy    `json:"limits" nullable:"false" doc:"The policies in order of application, then limits of listeners (--rls-config)."`
	AtOnce        []AtOnceLimit    `json:"at_once,omitempty" doc:"Limits of concurrency (max), which are asked for permits."`
}

// PolicyFileState is where policies come from.
type PolicyFileState struct {
	Path     string `json:"path"`
	LoadedAt Time   `json:"loaded_at" doc:"When the policies in use were read."`
	Error    string `json:"error,omitempty" doc:"Why the newest file is not in use; the policies before it are."`
	ErrorAt  *Time  `json:"error_at,omitempty"`
}

// LimitPolicy is one policy, or limit of a listener, and how it decided lately.
type LimitPolicy struct {
	Name           string       `json:"name" example:"login"`
	Keys           string       `json:"keys" doc:"The keys of requests that it is for." example:"login:{user}:*"`
	By             string       `json:"by,omitempty" doc:"The key that is counted; absent: the request's own." example:"login:{user}"`
	Listener       string       `json:"listener,omitempty" doc:"The listener that defines the limit; absent for a policy." example:"rls"`
	Version        uint64       `json:"version,omitempty" doc:"Version of a policy that was put by API (/v1/policies); absent for a policy of the file or a limit of a listener." example:"7"`
	Limit          uint64       `json:"limit" doc:"How many per per_s; 0 lets none pass."`
	PerSeconds     float64      `json:"per_s" doc:"The period in seconds."`
	Burst          uint64       `json:"burst"`
	Algorithm      string       `json:"algorithm" enum:"window,fixed,gcra"`
	Calendar       string       `json:"calendar,omitempty" doc:"For a calendar quota: its periods; per_s is the length of the longest period in whole days." example:"month from day 15, Europe/Berlin"`
	Mode           string       `json:"mode" enum:"enforce,shadow"`
	Where          string       `json:"where" enum:"shared,node,strict,leased" doc:"Which nodes of a cluster count together. shared: all; each holder of the key decides by what it knows. node: each node alone. strict: all; the owner decides. leased: all; the owner grants quota leases to the other nodes."`
	Regions        []RegionPart `json:"regions,omitempty" doc:"Of a limit over regions: what each may let pass of the burst. where says how the nodes of one region keep theirs."`
	Away           string       `json:"away,omitempty" enum:"closed,open" doc:"What happens to requests under a strict or leased limit while the owner is unreachable."`
	DenyForSeconds float64      `json:"deny_for_s,omitempty" doc:"For how many seconds a key that was over is banned."`
	WaitSeconds    float64      `json:"wait_s,omitempty" doc:"For how many seconds at most a request waits for its turn in place of being denied; absent: it does not."`
	Cost           string       `json:"cost,omitempty" doc:"Which of a request's costs it takes; absent: n." example:"tokens"`
	CountIf        string       `json:"count_if,omitempty" doc:"Which answers count, for callers that report their status." example:"status >= 400"`
	Warn           int          `json:"warn,omitempty" doc:"From how many percent of the burst on answers warn."`
	Last           bool         `json:"last,omitempty" doc:"No later policy is asked for its keys."`
	Overrides      int          `json:"overrides" doc:"Keys and address ranges that have another limit."`
	Except         int          `json:"except,omitempty" doc:"Address ranges that it is not for."`
	Allowed        Bounds       `json:"allowed" doc:"Decisions in the window: hits of limit:NAME:allowed."`
	Denied         Bounds       `json:"denied" doc:"Hits of limit:NAME:denied."`
	ShadowDenied   Bounds       `json:"shadow_denied" doc:"Hits of limit:NAME:shadow_denied: what a shadow policy would have denied."`
	Reserved       *Reserved    `json:"reserved,omitempty" doc:"Absent: no reservation of a key that the caller may read is open."`
}

// Reserved is what open reservations have taken: they are neither settled nor over.
type Reserved struct {
	Reservations int    `json:"reservations" doc:"How many are open."`
	N            uint64 `json:"n" doc:"What they have reserved, which counts as used."`
}

// RegionPart is what a region has of a limit over regions.
type RegionPart struct {
	Region  string `json:"region" example:"eu"`
	Percent int    `json:"percent"`
	Burst   uint64 `json:"burst" doc:"How many of the burst."`
}

// Per is PerSeconds as a duration.
func (p LimitPolicy) Per() time.Duration { return fromSeconds(p.PerSeconds) }

// Wait is WaitSeconds as a duration.
func (p LimitPolicy) Wait() time.Duration { return fromSeconds(p.WaitSeconds) }

// DenyFor is DenyForSeconds as a duration.
func (p LimitPolicy) DenyFor() time.Duration { return fromSeconds(p.DenyForSeconds) }

// LimitKeysAnswer is the keys that have used most of a limit, by the share of their burst.
type LimitKeysAnswer struct {
	Name string     `json:"name"`
	Keys []LimitKey `json:"keys" nullable:"false" doc:"Keys by the share of their burst that is used, the highest first."`
}

// LimitKey is what one key has used of a limit.
type LimitKey struct {
	Key           string    `json:"key" doc:"As it is counted." example:"login:bob"`
	Used          uint64    `json:"used"`
	Burst         uint64    `json:"burst" doc:"Of this key: overrides may give it another one."`
	Remaining     uint64    `json:"remaining"`
	Share         float64   `json:"share" doc:"used / burst: a key at 1 is denied now."`
	ResetSeconds  float64   `json:"reset_s" doc:"Seconds until the whole burst is there again, and no ban is left."`
	BannedSeconds float64   `json:"banned_s,omitempty" doc:"Seconds until the ban of the key is over, which denies it whatever it has used; absent: it is not banned."`
	Reserved      *Reserved `json:"reserved,omitempty" doc:"Open reservations of the key, within used; absent: there is none."`
}

// Reset is ResetSeconds as a duration: until the whole burst is there again.
func (k LimitKey) Reset() time.Duration { return fromSeconds(k.ResetSeconds) }

// ForgetAnswer is what was forgotten of limits that requests brought along.
type ForgetAnswer struct {
	Forgotten int `json:"forgotten" doc:"Keys that had used of them on this node, counted for each limit."`
}

// AllowLimit is which limit a request is for: the policy of a name, a limit that the
// request brings along, or, being zero, all policies that are for the key.
type AllowLimit struct {
	Name   string
	Inline *InlineLimit // not nil: Name is not used
}

// InlineLimit is a limit that a request brings along.
type InlineLimit struct {
	_         struct{} `additionalProperties:"false"`
	Name      string   `json:"name,omitempty" maxLength:"64" doc:"By which what keys have used is kept. Default: inline/, the algorithm and the period."`
	N         uint64   `json:"n" minimum:"1" doc:"How many per period."`
	Per       Period   `json:"per"`
	Burst     uint64   `json:"burst,omitempty" minimum:"1" doc:"How many at once. Default n."`
	Algorithm string   `json:"algorithm,omitempty" enum:"window,fixed,gcra" default:"window"`
}

// MarshalJSON writes a name as a text, a limit as an object.
func (l AllowLimit) MarshalJSON() ([]byte, error) {
	if l.Inline != nil {
		return json.Marshal(l.Inline)
	}
	return json.Marshal(l.Name)
}

// UnmarshalJSON reads either.
func (l *AllowLimit) UnmarshalJSON(b []byte) error {
	*l = AllowLimit{}
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &l.Name)
	}
	return json.Unmarshal(b, &l.Inline)
}

// Costs are what policies with a cost take of a request in place of its n.
type Costs map[string]uint64

// ResetAnswer is what came of forgetting what a key has used of a limit.
type ResetAnswer struct {
	Name      string `json:"name" example:"login"`
	Key       string `json:"key" doc:"As it is counted." example:"login:bob"`
	Was       bool   `json:"was" doc:"There was something to forget, as far as the node that did it knows."`
	Remaining uint64 `json:"remaining" doc:"How many would be allowed now."`
}

// GrantAnswer is a grant as it is now.
type GrantAnswer struct {
	Name      string `json:"name" example:"login"`
	Key       string `json:"key" doc:"As it is counted." example:"login:bob"`
	N         uint64 `json:"n" doc:"How many admissions are granted in addition to the limit; 0: none."`
	Until     *Time  `json:"until,omitempty" doc:"When what is left of them is over; absent when there are none."`
	Remaining uint64 `json:"remaining" doc:"How many would be allowed now, the grant included."`
}

// RefundAnswer is what came of giving admissions back.
type RefundAnswer struct {
	Refunded uint64        `json:"refunded" doc:"By how many more would be allowed: the least of the limits."`
	Limits   []LimitRefund `json:"limits" nullable:"false" doc:"What came of each limit, as in the answer to the request that took."`
}

// LimitRefund is what came of giving admissions of one limit back.
type LimitRefund struct {
	Name      string `json:"name" example:"tokens"`
	Key       string `json:"key" doc:"As it is counted." example:"team:7"`
	Refunded  uint64 `json:"refunded" doc:"By how many more would be allowed: fewer than n where some have left the window, or the bucket has filled since."`
	Remaining uint64 `json:"remaining" doc:"How many would be allowed now."`
}

// BanAnswer is a ban: the key is denied until a time, whatever it has used.
type BanAnswer struct {
	Name  string `json:"name" example:"login"`
	Key   string `json:"key" doc:"As it is counted." example:"login:bob"`
	Until Time   `json:"until" doc:"When it is over."`
}

// UnbanAnswer tells of a ban that was lifted.
type UnbanAnswer struct {
	Name string `json:"name" example:"login"`
	Key  string `json:"key" doc:"As it is counted." example:"login:bob"`
	Was  bool   `json:"was" doc:"There was a ban, as far as the node that was asked knew."`
	Full bool   `json:"full" doc:"The limit denies the key all the same, until it has more or is reset."`
}

// BansAnswer is the keys that are banned now.
type BansAnswer struct {
	Bans []BanAnswer `json:"bans" nullable:"false" doc:"Those whose ban ends last first."`
}

// PoliciesAnswer is the policies that were put by API.
type PoliciesAnswer struct {
	Version  uint64       `json:"version" doc:"Of the newest change to any of them; 0: there was none."`
	Policies []KeptPolicy `json:"policies" nullable:"false" doc:"By name."`
}

// KeptPolicy is a policy that was put by API.
type KeptPolicy struct {
	Name    string `json:"name" example:"login"`
	Version uint64 `json:"version" doc:"Rises with each change, of all nodes, and is never used twice; also the ETag." example:"7"`
	Policy  string `json:"policy" doc:"Its fields, as they were put."`
	By      string `json:"by" doc:"Who put it: an identity, or anybody of a server that is not locked." example:"ops"`
	At      Time   `json:"at" doc:"When."`
	InUse   bool   `json:"in_use"`
	Why     string `json:"why,omitempty" doc:"Why it is not in use on the node that answers."`
}

// PutAnswer is a policy as it is now.
type PutAnswer struct {
	KeptPolicy
	New bool `json:"new" doc:"No policy of the name had been put, or it had been deleted."`
}

// DeletedPolicy is a policy that is gone.
type DeletedPolicy struct {
	Name    string `json:"name" example:"login"`
	Version uint64 `json:"version" doc:"That it had."`
}
