package shadow

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/replay"
	"github.com/weir-counter/weir/internal/units"
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

// Print writes the report for a person. Text of the log can't control the terminal.
func (r *Report) Print(w io.Writer) error {
	p := printer{replay.NewTable(w)}
	p.log(r)
	p.Row()
	for _, s := range r.Summary {
		p.Row(s)
	}
	p.table(r)
	for i := range r.Limits {
		p.limit(&r.Limits[i])
	}
	p.Malformed(r.MalformedLines)
	return p.Flush()
}

type printer struct{ *replay.Table }

func (p printer) log(r *Report) {
	p.Log(r.StoppedEarly, r.Files, r.Format)
	var keys []string
	modes := "every policy enforced"
	if r.Modes != "enforce" {
		modes = "modes as written"
	}
	p.Row("policies", fmt.Sprintf("%s (%s)", r.Policies, modes))
	for _, k := range r.Keys {
		text := k.Template
		if k.Keyless > 0 {
			text += fmt.Sprintf(" (%s without)", units.Plural(k.Keyless, "request"))
		}
		keys = append(keys, text)
	}
	p.Row("keys", strings.Join(keys, ", "))
	if r.First != nil {
		p.Row("span", fmt.Sprintf("%s to %s (%s)", stamp(*r.First), stamp(*r.Last), seconds(float64(r.SpanSeconds))))
	}
	matched := r.Requests - r.Unmatched
	p.Row("requests", fmt.Sprintf("%s in %s, %s with a limit", units.Grouped(r.Requests), units.Plural(r.Lines, "line"), units.Grouped(matched)))
	p.Row("denied", fmt.Sprintf("%s (%s of those with a limit)", units.Grouped(r.Denied), percent(share(r.Denied, matched))))
	p.Row("late", p.late(r))
	p.Row("malformed", units.Plural(r.Malformed, "line"))
	if r.Ahead > 0 {
		p.Row("ahead", units.Plural(r.Ahead, "line")+" from the future: not counted")
	}
	for _, s := range r.Approximate {
		p.Row("approximate", s)
	}
	for _, s := range r.Warnings {
		p.Row("warning", s)
	}
}

func (p printer) late(r *Report) string {
	if r.Late == 0 {
		return "0 lines"
	}
	return fmt.Sprintf("%s older than a line before, by up to %s: decided at that one's time",
		units.Plural(r.Late, "line"), seconds(float64(r.LatestSeconds)))
}

// table has a row for each limit.
func (p printer) table(r *Report) {
	p.Row()
	p.Row("LIMIT", "RULE", "MODE", "REQUESTS", "ALLOWED", "DENIED", "SHARE", "BY OTHERS", "KEYS", "DENIED KEYS")
	for _, l := range r.Limits {
		p.Row(l.Name, l.text(), l.mode(), units.Grouped(l.Requests), units.Grouped(l.Allowed), units.Grouped(l.Denied), percent(l.DeniedShare),
			units.Grouped(l.Elsewhere), units.Grouped(l.DistinctKeys), units.Grouped(l.DeniedKeys))
	}
}

// mode is the policy's, and what was done with it where that is not the same.
func (l *Limit) mode() string {
	if l.Mode == "shadow" && l.Enforced {
		return "shadow, enforced here"
	}
	return l.Mode
}

// limit writes the details of a limit that would have denied somebody.
func (p printer) limit(l *Limit) {
	if l.Denied == 0 {
		return
	}
	p.Row()
	p.Row("limit "+l.Name, fmt.Sprintf("%s, %s", l.text(), l.Algorithm))
	if l.Where == "node" {
		p.Row("where", "node: as if one node had all requests")
	}
	p.Row("denials", fmt.Sprintf("%s to %s", stamp(*l.FirstDenial), stamp(*l.LastDenial)))
	p.Row("worst minute", fmt.Sprintf("%s up to %s", units.Plural(l.WorstMinute.Denied, "denial"), stamp(l.WorstMinute.At)))
	if l.Peak != nil {
		p.Row("peak", fmt.Sprintf("%s of %s in the %s up to %s", units.Plural(l.Peak.Requests, "request"), l.Peak.Key, l.interval(), stamp(l.Peak.At)))
	}
	if l.NeedsUnknown != "" {
		p.Row("enough", "not known: "+l.NeedsUnknown)
	}
	p.Row()
	p.Row("DENIED", "SHARE", "REQUESTS", "FIRST", "LAST", "LONGEST", "PEAK IN "+l.interval(), "KEY OF "+l.Name)
	for _, k := range l.Top {
		requests, key := units.Grouped(k.Requests), k.Key
		if k.AtLeast {
			requests += " or more"
		}
		if k.Override != nil {
			key += fmt.Sprintf(" (%s)", k.Override.text())
		}
		p.Row(units.Grouped(k.Denied), percent(k.DeniedShare), requests, stamp(k.FirstDenial), stamp(k.LastDenial),
			seconds(float64(k.LongestSeconds)), units.Grouped(k.Peak.Requests), key)
	}
}

func stamp(t replay.Time) string { return t.UTC().Format(time.RFC3339) }

// sentence says what the limit would have done, and what to write instead.
func (l *Limit) sentence() string {
	name := l.Name + ": "
	switch {
	case l.Requests == 0:
		return name + "no line has a key " + replay.Printable(l.Keys)
	case l.Denied == 0 && len(l.Needs) > 0 && !l.Needs[0].OrLess:
		return fmt.Sprintf("%s%s would have denied nobody, because other limits did before; alone, %s",
			name, l.text(), l.needs())
	case l.Denied == 0 && l.Peak != nil:
		return fmt.Sprintf("%s%s would have denied nobody: no key asked more than %s in any %s",
			name, l.text(), times(l.Peak.Requests), l.interval())
	case l.Denied == 0:
		return fmt.Sprintf("%s%s would have denied nobody", name, l.text())
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s would have denied %s of %s (%s), of %s of %s", name, l.text(), units.Grouped(l.Denied),
		units.Plural(l.Requests, "request"), percent(l.DeniedShare), units.Grouped(l.DeniedKeys), units.Plural(l.DistinctKeys, "key"))
	if len(l.Top) > 0 {
		fmt.Fprintf(&b, "; the worst is %s with %s of %s", replay.Printable(l.Top[0].Key), units.Grouped(l.Top[0].Denied), units.Grouped(l.Top[0].Requests))
	}
	if needs := l.needs(); needs != "" {
		b.WriteString(". " + needs)
	}
	return b.String()
}

// rules are the different Needs, each with its rule as text.
func (l *Limit) rules() iter.Seq2[Need, string] {
	return func(yield func(Need, string) bool) {
		for i, n := range l.Needs {
			if i > 0 && n.N == l.Needs[i-1].N {
				continue
			}
			if !yield(n, Rule{N: n.N, PerSeconds: l.PerSeconds, Burst: n.Burst, Calendar: l.Calendar}.text()) {
				return
			}
		}
	}
}

// needs says which limits would have denied fewer.
func (l *Limit) needs() string {
	var parts []string
	for n, rule := range l.rules() {
		whom := "nobody"
		if n.Share > 0 {
			whom = "at most " + percent(n.Share)
		}
		switch {
		case !n.OrLess:
			parts = append(parts, fmt.Sprintf("%s would have denied %s", rule, whom))
		case n.Share > 0:
			parts = append(parts, fmt.Sprintf("%s is enough to deny %s", rule, whom))
		}
	}
	return strings.Join(parts, ", ")
}

// text is `5 per 1m`, with the burst where it is not as large.
func (r Rule) text() string {
	if r.Calendar != "" {
		return units.Grouped(r.N) + " per " + r.Calendar
	}
	s := units.Grouped(r.N) + " per " + seconds(r.PerSeconds)
	if r.Burst != r.N {
		s += " burst " + units.Grouped(r.Burst)
	}
	return s
}

func (r Rule) interval() string { return seconds(r.IntervalSeconds) }

func seconds(s float64) string {
	return units.FormatDuration(time.Duration(s * float64(time.Second)))
}

// approximate says what the budgets cost.
func (c *clerk) approximate(o *Options) (said []string) {
	dropped, cut, thinned := false, false, false
	for _, a := range c.accounts {
		dropped, cut, thinned = dropped || a.dropped, cut || a.cut, thinned || a.thinned
	}
	memory := units.FormatSize(o.Memory)
	switch {
	case thinned:
		said = append(said, fmt.Sprintf("more keys were denied than fit in %s: keys with few denials may be missing from the list of the most denied, and the numbers of keys are too high; raise --memory", memory))
	case dropped:
		said = append(said, fmt.Sprintf("more keys asked than fit in %s: the numbers of keys may be too high, and requests before a key's first denial too low; raise --memory", memory))
	}
	if cut {
		said = append(said, fmt.Sprintf("the requests of the denied keys did not fit in %s: which limit would have denied fewer is not known; raise --memory", memory))
	}
	if c.Undecided > 0 {
		text := fmt.Sprintf("%s could not be decided, the first one because: %v", units.Plural(c.Undecided, "request"), c.problem)
		if refused, ok := errors.AsType[*engine.Error](c.problem); ok && refused.Code == api.CodeOverloaded {
			text = fmt.Sprintf("%s could not be decided: the limits in use did not fit in %s; raise --limit-memory",
				units.Plural(c.Undecided, "request"), units.FormatSize(o.LimitMemory))
		}
		said = append(said, text)
	}
	return said
}

// A log is nearly sorted if no line is more than a minute late, as the longest requests are, and at most one in ten is late.
const (
	sortedWithin = 60
	sortedMost   = 10
)

func (c *clerk) warnings(empty bool) (said []string) {
	if empty {
		return []string{"the log is empty: no line was read"}
	}
	if c.LatestSeconds > sortedWithin || c.Late > c.Requests/sortedMost {
		said = append(said, fmt.Sprintf("%s are up to %s older than a line before them, and were decided too late: sort the log by time, and name the oldest file first",
			units.Plural(c.Late, "line"), seconds(float64(c.LatestSeconds))))
	}
	for _, a := range c.accounts {
		if a.rule.interval < time.Second && a.Requests > 0 {
			said = append(said, fmt.Sprintf("%s: its interval of %s is shorter than a second, which is as fine as times are read: requests of one second count as at once, so it denies more here than it would have",
				a.policy.Name, units.FormatDuration(a.rule.interval)))
		}
	}
	if m := c.missed; m.times > 0 {
		said = append(said, fmt.Sprintf("%s like %s no policy is for, though they look like %s: a {name} takes one or more bytes without : and /, so that these have no limit; {name*} takes any text",
			units.Plural(m.times, "key"), m.key, m.keys))
	}
	return said
}

func times(n uint64) string {
	if n == 1 {
		return "once"
	}
	return units.Grouped(n) + " times"
}

func percent(share float64) string {
	switch {
	case share == 0:
		return "0%"
	case share < 0.0005:
		return "<0.1%"
	case share == 0.01:
		return "1%"
	}
	return strconv.FormatFloat(100*share, 'f', 1, 64) + "%"
}
