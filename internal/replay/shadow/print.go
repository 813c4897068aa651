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
