package shadow

import (
	"github.com/weir-counter/weir/internal/replay"
)

// A Report is what limits would have done to a log. Its names in JSON are stable: fields may be added. As in the answers of a
// server, times are Unix seconds, and durations seconds (..._s). Times are the newest time in the log up to a line (see package
// shadow). Counts are exact unless Approximate says otherwise, and shares are parts of 1.
type Report struct {
	// StoppedEarly says why the files were not read to their end; missing: they were. What follows is about the lines before.
	StoppedEarly string `json:"stopped_early,omitempty"`

	Files  []replay.FileReport `json:"files"`
	Format replay.Format       `json:"format,omitempty"` // missing: there was no line
	Keys   []Template          `json:"keys"`             // the templates

	Policies string `json:"policies"` // the file
	// Modes is "enforce" when every policy was enforced, "as_written" else.
	Modes string `json:"modes"`

	Lines     int    `json:"lines"`     // good ones
	Ahead     int    `json:"ahead"`     // lines from the future: not counted
	Malformed int    `json:"malformed"` // lines
	Late      uint64 `json:"late"`      // lines older than a line before: decided at that one's time
	// LatestSeconds is how much older a line was than one before it, at most.
	LatestSeconds int64 `json:"latest_s"`

	First       *replay.Time `json:"first,omitempty"` // request
	Last        *replay.Time `json:"last,omitempty"`
	SpanSeconds int64        `json:"span_s"` // from first to last, both included

	Requests  uint64 `json:"requests"`  // that the lines stand for
	Unmatched uint64 `json:"unmatched"` // of them: no key that a policy is for, let through
	Allowed   uint64 `json:"allowed"`   // matched, and let through, or excepted
	Denied    uint64 `json:"denied"`    // by one limit or more
	Undecided uint64 `json:"undecided"` // a server would have answered with an error

	Summary []string `json:"summary"` // sentences for a person, one for each limit that was asked
	Limits  []Limit  `json:"limits"`  // in order of application

	// Approximate says what is not exact, and what to do about it. Missing: all is.
	Approximate []string `json:"approximate,omitempty"`
	// Warnings say what may make the answer wrong.
	Warnings []string `json:"warnings,omitempty"`

	MalformedLines []replay.MalformedLine `json:"malformed_lines,omitempty"` // the first five
}

// A Template made keys of the lines.
type Template struct {
	Template string `json:"template"`
	Keyless  uint64 `json:"keyless"` // requests whose line lacks a field of it
}

// A Limit is what one policy would have done. Requests = Allowed + Denied + Elsewhere + Undecided. A request that asks the limit
// with several keys counts once for each.
type Limit struct {
	Name string `json:"name"`
	Keys string `json:"keys"`
	By   string `json:"by,omitempty"`
	Rule
	Algorithm string `json:"algorithm"`
	// Mode is the policy's; Enforced whether it denied in this replay. If not, Denied is what it would have denied by itself.
	Mode     string `json:"mode"`
	Enforced bool   `json:"enforced"`
	// Where is the policy's. The replay decides all at one place: a node's limit is decided as if one node had all requests.
	Where string `json:"where"`

	Requests    uint64  `json:"requests"` // of a key that the policy is for
	Allowed     uint64  `json:"allowed"`
	Denied      uint64  `json:"denied"`
	DeniedShare float64 `json:"denied_share"` // of Requests
	Elsewhere   uint64  `json:"denied_by_others"`
	Undecided   uint64  `json:"undecided"`

	DistinctKeys uint64 `json:"distinct_keys"` // counted keys that asked
	DeniedKeys   uint64 `json:"denied_keys"`

	FirstDenial *replay.Time `json:"first_denial,omitempty"`
	LastDenial  *replay.Time `json:"last_denial,omitempty"`
	WorstMinute *Minute      `json:"worst_minute,omitempty"`

	// Peak is the most requests of one key in any interval, of keys without an override.
	Peak *Peak `json:"peak,omitempty"`
	// Needs are the smallest limits that would have denied none and at most 1 %.
	Needs []Need `json:"needs"`
	// NeedsUnknown says why Needs are missing.
	NeedsUnknown string `json:"needs_unknown,omitempty"`

	Timeline Timeline `json:"timeline"`
	Top      []Key    `json:"top"` // the most denied keys
}

// A Rule is N requests per period with a burst: at most Burst in an interval.
type Rule struct {
	N               uint64  `json:"limit"`
	PerSeconds      float64 `json:"per_s"`
	Burst           uint64  `json:"burst"`
	IntervalSeconds float64 `json:"interval_s"`
	Calendar        string  `json:"calendar,omitempty"` // of a quota by the calendar: its periods
}

// A Minute is the 60 seconds with the most denials: (At-60s, At].
type Minute struct {
	At     replay.Time `json:"at"`
	Denied uint64      `json:"denied"`
}

// A Peak is the most requests of a key in an interval of its limit, let through or not: in (At-interval, At].
type Peak struct {
	Requests uint64      `json:"requests"`
	At       replay.Time `json:"at"`
	Key      string      `json:"key,omitempty"`
}

// A Need is the smallest limit that would have denied at most a share of the requests, had it been alone. It has the interval and
// algorithm of the policy. Keys with an override are left out. If the policy itself denies no more, it is the policy, and OrLess.
type Need struct {
	Share  float64 `json:"denied_share"` // at most
	N      uint64  `json:"limit"`
	Burst  uint64  `json:"burst"`
	Denied uint64  `json:"denied"` // requests
	OrLess bool    `json:"or_less"`
}

// A Timeline is how many requests were denied over the span of the log.
type Timeline struct {
	Start         replay.Time `json:"start"`    // of the first bucket
	BucketSeconds int64       `json:"bucket_s"` // aligned to the Unix epoch
	Requests      []uint64    `json:"requests"` // that were decided
	Denied        []uint64    `json:"denied"`
}

// A Key is one of the most denied keys of a limit.
type Key struct {
	Key         string      `json:"key"`
	Override    *Rule       `json:"override,omitempty"` // its limit, if it is not the policy's
	Requests    uint64      `json:"requests"`
	Denied      uint64      `json:"denied"`
	DeniedShare float64     `json:"denied_share"`
	FirstDenial replay.Time `json:"first_denial"`
	LastDenial  replay.Time `json:"last_denial"`
	// LongestSeconds is the longest stretch of denials, from its first to its last: each came within an interval of the one before.
	LongestSeconds int64 `json:"longest_stretch_s"`
	Peak           Peak  `json:"peak"`
	// AtLeast: earlier requests of the key may be missing, see Approximate.
	AtLeast bool `json:"at_least,omitempty"`
}

// timelineMost is how many buckets a timeline has at most: a line of a terminal.
const timelineMost = 72

// bucketWidths are the widths of a timeline's buckets in seconds, each a multiple of the one before. Beyond a week they double.
var bucketWidths = []int64{1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 604800}

// timeline counts in buckets that are as narrow as the span of the log permits. They are aligned to the Unix epoch: days begin at
// midnight UTC.
type timeline struct {
	width   int64 // s
	first   int64 // the number of the first bucket: its time over the width
	buckets []uint64
}

func newTimeline(at int64) timeline {
	return timeline{width: 1, first: at, buckets: make([]uint64, 1, timelineMost)}
}

// reach adds buckets up to a time that is not before the first.
func (t *timeline) reach(at int64) {
	for at/t.width-t.first >= timelineMost {
		t.widen()
	}
	for int64(len(t.buckets)) <= at/t.width-t.first {
		t.buckets = append(t.buckets, 0)
	}
}

func (t *timeline) add(at int64, n uint64) {
	t.reach(at)
	t.buckets[at/t.width-t.first] += n
}

func (t *timeline) widen() {
	to := 2 * t.width
	for _, w := range bucketWidths {
		if w > t.width {
			to = w
			break
		}
	}
	factor := to / t.width
	first := t.first / factor
	last := (t.first + int64(len(t.buckets)) - 1) / factor
	for i, n := range t.buckets {
		t.buckets[i] = 0
		t.buckets[(t.first+int64(i))/factor-first] += n
	}
	t.width, t.first, t.buckets = to, first, t.buckets[:last-first+1]
}
