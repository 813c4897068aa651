package shadow

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/replay"
)

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

// needs says which limits would have denied fewer.
func (l *Limit) needs() string {
	var parts []string
	for i, n := range l.Needs {
		if i > 0 && n.N == l.Needs[i-1].N {
			continue
		}
		whom := "nobody"
		if n.Share > 0 {
			whom = "at most " + percent(n.Share)
		}
		rule := Rule{N: n.N, PerSeconds: l.PerSeconds, Burst: n.Burst, Calendar: l.Calendar}.text()
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
	if c.undecided > 0 {
		text := fmt.Sprintf("%s could not be decided, the first one because: %v", units.Plural(c.undecided, "request"), c.problem)
		var refused *weir.Error
		if errors.As(c.problem, &refused) && refused.Code == weir.CodeOverloaded {
			text = fmt.Sprintf("%s could not be decided: the limits in use did not fit in %s; raise --limit-memory",
				units.Plural(c.undecided, "request"), units.FormatSize(o.LimitMemory))
		}
		said = append(said, text)
	}
	return said
}

// A log is nearly sorted when no line is later than a minute, as the longest requests are,
// and no more than one in ten is late.
const (
	sortedWithin = 60
	sortedMost   = 10
)

func (c *clerk) warnings(empty bool) (said []string) {
	if empty {
		return []string{"the log is empty: no line was read"}
	}
	if c.latest > sortedWithin || c.late > c.requests/sortedMost {
		said = append(said, fmt.Sprintf("%s are up to %s older than a line before them, and were decided too late: sort the log by time, and name the oldest file first",
			units.Plural(c.late, "line"), seconds(float64(c.latest))))
	}
	for _, a := range c.accounts {
		if a.rule.interval < time.Second && a.requests > 0 {
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
