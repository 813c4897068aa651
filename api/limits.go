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
	AtOnce        []AtOnceLimit    `json:"at_once,omitempty" doc:"Policies of permits (max)."`
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
	Keys           string       `json:"keys" doc:"Pattern of the keys to which it applies." example:"login:{user}:*"`
	By             string       `json:"by,omitempty" doc:"The key that is counted; absent if it is the request's." example:"login:{user}"`
	Listener       string       `json:"listener,omitempty" doc:"The listener that defines the limit; absent for a policy." example:"rls"`
	Version        uint64       `json:"version,omitempty" doc:"Version of a policy that was put by API (/v1/policies); absent for a policy of the file or a limit of a listener." example:"7"`
	Limit          uint64       `json:"limit" doc:"How many per per_s; 0 lets none pass."`
	PerSeconds     float64      `json:"per_s" doc:"The period in seconds."`
	Burst          uint64       `json:"burst"`
	Algorithm      string       `json:"algorithm" enum:"window,fixed,gcra"`
	Calendar       string       `json:"calendar,omitempty" doc:"For a calendar quota: its periods; per_s is the length of the longest period in whole days." example:"month from day 15, Europe/Berlin"`
	Mode           string       `json:"mode" enum:"enforce,shadow"`
	Where          string       `json:"where" enum:"shared,node,strict,leased" doc:"Which nodes count together. leased: all; the owner grants quota leases to other nodes. strict: all; the owner decides. node: each node alone."`
	Regions        []RegionPart `json:"regions,omitempty" doc:"For a limit divided among regions: each region's part of the burst. where says how the nodes of a region share it."`
	Away           string       `json:"away,omitempty" enum:"closed,open" doc:"What happens to requests under a strict or leased limit while the owner is unreachable."`
	DenyForSeconds float64      `json:"deny_for_s,omitempty" doc:"For how many seconds a key that was over is banned."`
	WaitSeconds    float64      `json:"wait_s,omitempty" doc:"For how many seconds at most a request waits for its turn in place of being denied; absent: it does not."`
	Cost           string       `json:"cost,omitempty" doc:"Which of a request's costs it takes; absent: n." example:"tokens"`
	CountIf        string       `json:"count_if,omitempty" doc:"Which answers count, for callers that report their status." example:"status >= 400"`
	Warn           int          `json:"warn,omitempty" doc:"Percent of the burst from which answers warn."`
	Last           bool         `json:"last,omitempty" doc:"Later policies do not apply to its keys."`
	Overrides      int          `json:"overrides" doc:"Keys and address ranges that have another limit."`
	Except         int          `json:"except,omitempty" doc:"Address ranges to which the policy does not apply."`
	Allowed        Bounds       `json:"allowed" doc:"Decisions in the window: hits of limit:NAME:allowed."`
	Denied         Bounds       `json:"denied" doc:"Hits of limit:NAME:denied."`
	ShadowDenied   Bounds       `json:"shadow_denied" doc:"Hits of limit:NAME:shadow_denied: requests that a shadow policy would have denied."`
	Reserved       *Reserved    `json:"reserved,omitempty" doc:"Open reservations of keys that the caller may read; absent if there are none."`
}

// Reserved is what open reservations have taken: they are neither settled nor over.
type Reserved struct {
	Reservations int    `json:"reservations" doc:"Number of open reservations."`
	N            uint64 `json:"n" doc:"The amount that they have reserved, which counts as used."`
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
	Key           string    `json:"key" doc:"The key as it is counted." example:"login:bob"`
	Used          uint64    `json:"used"`
	Burst         uint64    `json:"burst" doc:"Of this key: overrides may give it another one."`
	Remaining     uint64    `json:"remaining"`
	Share         float64   `json:"share" doc:"used / burst: a key at 1 is denied now."`
	ResetSeconds  float64   `json:"reset_s" doc:"Seconds until the whole burst is free again and no ban is left."`
	BannedSeconds float64   `json:"banned_s,omitempty" doc:"Seconds until the key's ban ends; absent if it is not banned."`
	Reserved      *Reserved `json:"reserved,omitempty" doc:"Open reservations of the key, included in used; absent if there are none."`
}

// Reset is ResetSeconds as a duration: until the whole burst is there again.
func (k LimitKey) Reset() time.Duration { return fromSeconds(k.ResetSeconds) }

// ForgetAnswer is what was forgotten of limits that requests brought along.
type ForgetAnswer struct {
	Forgotten int `json:"forgotten" doc:"Keys whose usage this node deleted, counted for each limit."`
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
	Name      string   `json:"name,omitempty" maxLength:"64" doc:"Name under which the usage of keys is stored. Default: inline/, the algorithm and the period."`
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
	Key       string `json:"key" doc:"The key as it is counted." example:"login:bob"`
	Was       bool   `json:"was" doc:"There was something to forget, as far as the node that did it knows."`
	Remaining uint64 `json:"remaining" doc:"Admissions that are possible now."`
}

// GrantAnswer is a grant as it is now.
type GrantAnswer struct {
	Name      string `json:"name" example:"login"`
	Key       string `json:"key" doc:"The key as it is counted." example:"login:bob"`
	N         uint64 `json:"n" doc:"How many admissions are granted in addition to the limit; 0: none."`
	Until     *Time  `json:"until,omitempty" doc:"When the rest expires; absent if there is none."`
	Remaining uint64 `json:"remaining" doc:"Admissions that are possible now, including the grant."`
}

// RefundAnswer is what came of giving admissions back.
type RefundAnswer struct {
	Refunded uint64        `json:"refunded" doc:"Additional admissions that are possible now: the least of all limits."`
	Limits   []LimitRefund `json:"limits" nullable:"false" doc:"What came of each limit, as in the answer to the request that took."`
}

// LimitRefund is the result of a refund in one limit.
type LimitRefund struct {
	Name      string `json:"name" example:"tokens"`
	Key       string `json:"key" doc:"The key as it is counted." example:"team:7"`
	Refunded  uint64 `json:"refunded" doc:"Additional admissions that are possible now: fewer than n if some had left the window or the bucket had refilled."`
	Remaining uint64 `json:"remaining" doc:"Admissions that are possible now."`
}

// BanAnswer is a ban: the key is denied until a time, whatever it has used.
type BanAnswer struct {
	Name  string `json:"name" example:"login"`
	Key   string `json:"key" doc:"The key as it is counted." example:"login:bob"`
	Until Time   `json:"until" doc:"When it ends."`
}

// UnbanAnswer says whether a ban was lifted.
type UnbanAnswer struct {
	Name string `json:"name" example:"login"`
	Key  string `json:"key" doc:"The key as it is counted." example:"login:bob"`
	Was  bool   `json:"was" doc:"The asked node knew of a ban."`
	Full bool   `json:"full" doc:"The limit still denies the key, until more is free or it is reset."`
}

// BansAnswer is the keys that are banned now.
type BansAnswer struct {
	Bans []BanAnswer `json:"bans" nullable:"false" doc:"The ban that ends last comes first."`
}

// PoliciesAnswer is the policies that were put by API.
type PoliciesAnswer struct {
	Version  uint64       `json:"version" doc:"Version of the newest change; 0: none."`
	Policies []KeptPolicy `json:"policies" nullable:"false" doc:"By name."`
}

// KeptPolicy is a policy that was put by API.
type KeptPolicy struct {
	Name    string `json:"name" example:"login"`
	Version uint64 `json:"version" doc:"Rises with each change, of all nodes, and is never used twice; also the ETag." example:"7"`
	Policy  string `json:"policy" doc:"Its fields, as they were put."`
	By      string `json:"by" doc:"The identity that put it; anybody on a server without tokens." example:"ops"`
	At      Time   `json:"at" doc:"When."`
	InUse   bool   `json:"in_use"`
	Why     string `json:"why,omitempty" doc:"Why the answering node does not use it."`
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
