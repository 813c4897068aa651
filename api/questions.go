package api

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/weir-counter/weir/internal/units"
)

// CountQuestion asks how many hits a key has in (At-Window, At].
type CountQuestion struct {
	Key    string
	At     time.Time
	Window time.Duration // whole seconds
}

// TopAnswer lists keys, most hits first.
type TopAnswer struct {
	WindowSeconds int64    `json:"window_s" doc:"The window in seconds; with align, how long the time is."`
	At            Time     `json:"at" doc:"The end of the window; with align, the last second of the time."`
	Start         *Time    `json:"start,omitempty" doc:"With align: the first second of the time."`
	Align         string   `json:"align,omitempty" doc:"hour, day, week, month or year, if requested: the time is then of whole spans."`
	Zone          string   `json:"tz,omitempty" doc:"The time zone of align."`
	Source        string   `json:"source,omitempty" doc:"history, with align."`
	Prefix        string   `json:"prefix"`
	Keys          []TopKey `json:"keys" nullable:"false" doc:"Most hits first."`
	Missing       string   `json:"missing,omitempty" doc:"With align: times whose hits may be missing in history."`
	Freshness
}

// TopKey is one line of a TopAnswer.
type TopKey struct {
	Key string `json:"key"`
	Bounds
}

// SeriesAnswer is the hits of a key in adjoining windows of one step.
type SeriesAnswer struct {
	Key         string  `json:"key"`
	From        Time    `json:"from" doc:"The start of the first window: not before the from that was asked for."`
	To          Time    `json:"to" doc:"The end of the last window, a whole second."`
	StepSeconds int64   `json:"step_s" doc:"Seconds per point; 0 with align, whose spans differ in length."`
	Align       string  `json:"align,omitempty" doc:"hour, day, week, month or year, if requested: each point then has its start, and at is the last second of its span."`
	Zone        string  `json:"tz,omitempty" doc:"The time zone of align."`
	Source      string  `json:"source,omitempty" doc:"Source of an answer with align: history; windows if history is off or unreachable; history+windows if history may lack hits and windows give the upper bound."`
	Points      []Point `json:"points" nullable:"false" doc:"The windows (from, from+step], (from+step, from+2*step], ... (to-step, to]."`
	Freshness
}

// Point is the hits in (At-step, At].
type Point struct {
	At    Time  `json:"at" doc:"The end of the window of this point."`
	Start *Time `json:"start,omitempty" doc:"With align: the first second of the span."`
	Bounds
	Distinct *Distinct `json:"distinct,omitempty" doc:"With distinct=true: the different ids of the span, each once."`
}

// DeletedAnswer says how many keys of a prefix were deleted.
type DeletedAnswer struct {
	Deleted int    `json:"deleted" doc:"How many keys: at most 1000 at a time."`
	Reset   int    `json:"reset,omitempty" doc:"With limits=true: number of keys with usage, bans or grants on the asked node, counted for each limit."`
	Next    string `json:"next,omitempty" doc:"There may be more: delete again with after set to this."`
}

// KeysAnswer lists keys, sorted by their bytes. Next is the After of the following page, empty on the last one.
type KeysAnswer struct {
	Keys []string `json:"keys" nullable:"false" doc:"Sorted by their bytes."`
	Next string   `json:"next,omitempty" doc:"There are more: ask again with after set to this."`
	Freshness
}

// Bounds is a count: Lower <= the true number <= *Upper, of all hits that any node took until the AsOf of the answer.
type Bounds struct {
	Lower    uint64  `json:"lower" doc:"The true number is not below this."`
	Estimate uint64  `json:"estimate" doc:"The best guess between lower and upper."`
	Upper    *uint64 `json:"upper" nullable:"true" doc:"The true number of the hits taken until as_of is not above this. null: no upper bound is known, for a node is late, hits were sampled, or the window reaches back beyond the retention."`
	Exact    bool    `json:"exact" doc:"lower = upper: the true number of the hits that were taken until as_of."`
}

// HasUpper reports whether an upper bound is known. Without one the true number may be any from Lower up.
func (b Bounds) HasUpper() bool { return b.Upper != nil }

// String is the number, with what is known of it: "12", "12 (10 to 15)", or without
// an upper bound "12 or more" and "12 (10 or more)".
func (b Bounds) String() string {
	switch {
	case b.Exact:
		return strconv.FormatUint(b.Estimate, 10)
	case b.HasUpper():
		return fmt.Sprintf("%d (%d to %d)", b.Estimate, b.Lower, *b.Upper)
	case b.Lower == b.Estimate:
		return fmt.Sprintf("%d or more", b.Lower)
	}
	return fmt.Sprintf("%d (%d or more)", b.Estimate, b.Lower)
}

// Per is the mean rate of a count over a window of so many seconds, 1 or more.
func (b Bounds) Per(seconds int64) PerSecond {
	w := float64(seconds)
	r := PerSecond{Lower: float64(b.Lower) / w, Estimate: float64(b.Estimate) / w}
	if b.Upper != nil {
		upper := float64(*b.Upper) / w
		r.Upper = &upper
	}
	return r
}

// PerSecond is the mean rate of a count over its window, with its bounds.
type PerSecond struct {
	Lower    float64  `json:"lower"`
	Estimate float64  `json:"estimate"`
	Upper    *float64 `json:"upper" nullable:"true" doc:"null: no upper bound is known."`
}

// String is the rate as Bounds.String writes a count, with three decimals.
func (p PerSecond) String() string {
	switch {
	case p.Upper == nil && p.Lower == p.Estimate:
		return fmt.Sprintf("%.3f or more", p.Lower)
	case p.Upper == nil:
		return fmt.Sprintf("%.3f (%.3f or more)", p.Estimate, p.Lower)
	case p.Lower == *p.Upper:
		return fmt.Sprintf("%.3f", p.Estimate)
	}
	return fmt.Sprintf("%.3f (%.3f to %.3f)", p.Estimate, p.Lower, *p.Upper)
}

// Distinct is how many different ids, such as visitors, hits of a key carried. Lower and Upper differ if
// the window begins within a slot of time. If Error is not 0, all three are estimates, and Lower and Upper no bounds.
type Distinct struct {
	Estimate uint64  `json:"estimate" doc:"The best guess of how many different ids."`
	Error    float64 `json:"error" doc:"The relative standard error of lower, estimate and upper: in two of three answers they are off by no more. 0: there is none, and lower and upper are bounds."`
	Lower    uint64  `json:"lower" doc:"The ids surely within the window."`
	Upper    *uint64 `json:"upper" nullable:"true" doc:"Those that may be within it. null: not known, for a node or region is late, or the window reaches back beyond the retention."`
	Region   string  `json:"region,omitempty" doc:"The counted region, with scope=region; absent: all."`
}

// String is the number as Bounds.String writes it, after ~ and with the error in percent if there is one.
func (d Distinct) String() string {
	b := Bounds{Lower: d.Lower, Estimate: d.Estimate, Upper: d.Upper, Exact: d.Upper != nil && d.Lower == *d.Upper}
	if d.Error == 0 {
		return b.String()
	}
	return fmt.Sprintf("~%s ±%.1f%%", b, 100*d.Error)
}

// CountAnswer is the hits of one key in (At-Window, At].
type CountAnswer struct {
	Key           string `json:"key"`
	WindowSeconds int64  `json:"window_s" doc:"The window in seconds."`
	At            Time   `json:"at" doc:"The end of the window."`
	Bounds
	Freshness
	Distinct *Distinct     `json:"distinct,omitempty" doc:"With distinct=true: the different ids of the hits, if any had one."`
	Source   string        `json:"source,omitempty" doc:"history if the answer comes from history, which has all hits until as_of; absent if it comes from windows." example:"history"`
	Regions  []RegionCount `json:"regions,omitempty" doc:"The part of each region, with by=region."`
}

// RegionCount is the part of one region in a count of all.
type RegionCount struct {
	Region string `json:"region"`
	Bounds
	Freshness
}

// RateAnswer is a count with its mean hits per second.
type RateAnswer struct {
	CountAnswer
	PerSecond PerSecond `json:"per_second" doc:"The mean rate: lower, estimate and upper by window_s."`
}

// OneOrCounts is one answer as an object of its own, or several as {"counts":[...]}.
type OneOrCounts[T any] []T

type several[T any] struct {
	Counts []T `json:"counts"`
}

// MarshalJSON writes the object, or the list.
func (a OneOrCounts[T]) MarshalJSON() ([]byte, error) {
	if len(a) == 1 {
		return json.Marshal(a[0])
	}
	return json.Marshal(several[T]{a})
}

// UnmarshalJSON reads either.
func (a *OneOrCounts[T]) UnmarshalJSON(b []byte) error {
	var list several[T]
	if err := json.Unmarshal(b, &list); err != nil || list.Counts != nil {
		*a = list.Counts
		return err
	}
	*a = make(OneOrCounts[T], 1)
	return json.Unmarshal(b, &(*a)[0])
}

// Freshness says how much of the newest hits is in an answer. Like Bounds it is embedded in answers.
type Freshness struct {
	AsOf Time   `json:"as_of" doc:"All hits that any node accepted until then are included. On a single server: now."`
	Late []Late `json:"late,omitempty" doc:"Nodes whose newer hits may be missing: the answer is a lower bound and has no upper bound. Absent if there are none."`
}

// Late is a node of which hits may be missing: it is silent, or lags.
type Late struct {
	Node  string `json:"node"`
	Since Time   `json:"since" doc:"Its hits until then are counted in this answer."`
}

// Time is a point in time that JSON carries as Unix seconds, whole when the time is.
type Time struct{ time.Time }

// MarshalJSON writes Unix seconds.
func (t Time) MarshalJSON() ([]byte, error) { return units.AppendUnix(nil, t.Time), nil }

// UnmarshalJSON reads Unix seconds.
func (t *Time) UnmarshalJSON(b []byte) (err error) {
	t.Time, err = units.ParseTime(string(b))
	return err
}

// Millis rounds a time down to milliseconds: what is complete up to t is complete up to then.
func Millis(t time.Time) Time { return Time{t.Truncate(time.Millisecond)} }

// Period is a duration that JSON carries as a text of seconds, to the nanosecond: one
// that was rounded would be another limit.
type Period time.Duration

// MarshalJSON writes seconds in quotes.
func (p Period) MarshalJSON() ([]byte, error) {
	return json.Marshal(units.FormatUnix(time.Unix(0, int64(p))))
}

// UnmarshalJSON reads a number of seconds, or a text like "1m30s".
func (p *Period) UnmarshalJSON(b []byte) error {
	text := string(b)
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
	}
	d, err := units.ParseDuration(text)
	*p = Period(d)
	return err
}

// fromSeconds rounds: 4.35 s as a float are a little less.
func fromSeconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }

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
