package policy

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/limit"
	"go.yaml.in/yaml/v4"
)

const (
	// minPer is the shortest period of package limit.
	minPer = time.Millisecond

	// mostLimit is the most admissions of the longest period.
	mostLimit = limit.MaxRate * uint64(limit.MaxPer/time.Second)
)

// limitFields reads limit, per and burst over what l has, and reports whether limit and per, and whether burst are good
// by themselves. It adds a fault for each that is not, so that one fault hides no other.
func (p *parser) limitFields(l *limit.Limit, fields map[string]*yaml.Node, within string) (rateOK, burstOK bool) {
	rateOK, burstOK = true, true
	if n := fields["limit"]; n != nil {
		l.N, rateOK = p.count(n, within+"limit", "limit: 100", mostLimit)
	}
	if n := fields["per"]; n != nil {
		ok := p.per(l, n, within)
		rateOK = rateOK && ok
	}
	if n := fields["burst"]; n != nil {
		l.Burst, burstOK = p.count(n, within+"burst", "burst: 10", limit.MaxBurst)
	}
	return rateOK, burstOK
}

// The bounds of durations. The longest Policy.DenyFor is engine.MaxBan.
const (
	MaxWait    = 10 * time.Second // the longest Policy.Wait
	MinDenyFor = time.Second      // the shortest Policy.DenyFor
)

// duration reads a duration from least to most, 0 if it is not there or not good. words are added to the error about an
// invalid text: what else it may be.
func (p *parser) duration(n *yaml.Node, field, example string, least, most time.Duration, words string) time.Duration {
	text, ok := p.Text(n, field, example)
	if !ok {
		return 0
	}
	d, err := units.ParseDuration(text)
	switch {
	case err != nil:
		p.Fault(n.Line, field, "%v%s", err, words)
	case d < least || d > most:
		p.Fault(n.Line, field, "%s: must be %s to %s", units.FormatDuration(d), units.FormatDuration(least), units.FormatDuration(most))
	default:
		return d
	}
	return 0
}

// percent reads a share, 1% to 100%, 0 if it is not there or not good. what says what share to write.
func (p *parser) percent(n *yaml.Node, field, what, example string) uint8 {
	text, ok := p.Text(n, field, example)
	if !ok {
		return 0
	}
	number, isShare := strings.CutSuffix(text, "%")
	percent, err := strconv.ParseUint(number, 10, 8)
	if err != nil || !isShare || percent < 1 || percent > 100 {
		p.Fault(n.Line, field, "%q: write %s, 1%% to 100%%, for example `%s`", units.Excerpt(text), what, example)
		return 0
	}
	return uint8(percent)
}

// checkLimit asks package limit whether l, whose limit and per are good by themselves, is possible, and fills the burst
// in. A fault is at the line of its field, or at the line of the policy if the field is not written there. A burst that
// is not good by itself has its fault already.
func (p *parser) checkLimit(l *limit.Limit, burstOK bool, fields map[string]*yaml.Node, within string, line int) bool {
	at := func(field string) int {
		if n := fields[field]; n != nil {
			return n.Line
		}
		return line
	}
	fault := func(field string, err error) {
		p.Fault(at(field), within+field, "%s", strings.TrimPrefix(err.Error(), "limit: "))
	}
	// A burst of one fits every rate that is possible: what is wrong then is n.
	one := *l
	if one.Calendar.Unit == limit.NoUnit {
		one.Burst = 1
	}
	if _, err := limit.New(one); err != nil {
		fault("limit", err)
		return false
	}
	if !burstOK {
		return false
	}
	plan, err := limit.New(*l)
	if err != nil {
		fault("burst", err)
		return false
	}
	*l = plan.Limit()
	return true
}

// count reads a whole number from 1 to most.
func (p *parser) count(n *yaml.Node, field, example string, most uint64) (uint64, bool) {
	text, ok := p.Text(n, field, example)
	if !ok {
		return 0, false
	}
	digits := strings.ReplaceAll(text, "_", "")
	v, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || v == 0 || v > most || digits[0] == '0' || text[0] == '_' || strings.HasSuffix(text, "_") {
		var fraction string
		if strings.HasSuffix(field, "limit") && strings.Contains(text, ".") {
			fraction = "; for a fractional rate write a longer period, such as `limit: 1` with `per: 2s` for 0.5 per second"
		}
		p.Fault(n.Line, field, "%q is not a whole number from 1 to %d: write for example `%s`%s", units.Excerpt(text), most, example, fraction)
		return 0, false
	}
	return v, true
}

// whole reads a whole number, 0 if it is not there.
func (p *parser) whole(n *yaml.Node, field string) int {
	text, ok := p.Text(n, field, field+": 10")
	if !ok {
		return 0
	}
	v, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		p.Fault(n.Line, field, "%q is not a whole number of -2147483648 to 2147483647: write for example `%s: 10`, lower comes first", units.Excerpt(text), field)
	}
	return int(v)
}

// truth reads true or false, false if it is not there.
func (p *parser) truth(n *yaml.Node, field string) bool {
	text, ok := p.Text(n, field, field+": true")
	if ok && text != "true" && text != "false" {
		p.Fault(n.Line, field, "%q: write true or false", units.Excerpt(text))
	}
	return text == "true"
}

// choice reads one of some words, the first if it is not there.
func (p *parser) choice(n *yaml.Node, field string, words []string) int {
	text, ok := p.Text(n, field, field+": "+words[0])
	if !ok {
		return 0
	}
	at := slices.Index(words, text)
	if at < 0 {
		p.Fault(n.Line, field, "%q%s; there are %s", units.Excerpt(text), units.DidYouMean(text, words), strings.Join(words, ", "))
	}
	return max(0, at)
}

// cost reads the name of a cost.
func (p *parser) cost(n *yaml.Node) string {
	name, ok := p.Text(n, "cost", "cost: tokens")
	if ok && !isName(name) {
		p.Fault(n.Line, "cost", "%q: write 1 to %d letters, digits or any of ._/-", units.Excerpt(name), engine.MaxLimitNameBytes)
	}
	return name
}

// calendarUnits and weekdays are the words of the file: the units in the order of their constants, from Day.
var (
	calendarUnits = []string{limit.Day.String(), limit.Week.String(), limit.Month.String()}
	weekdays      = []string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}
)

// per reads a period over what l has, or a unit of the calendar.
func (p *parser) per(l *limit.Limit, n *yaml.Node, within string) bool {
	if unit := slices.Index(calendarUnits, n.Value); unit >= 0 && within == "" {
		l.Calendar.Unit = limit.Day + limit.Unit(unit)
		l.Per = l.Calendar.Unit.Period()
		return true
	}
	if l.Calendar.Unit != limit.NoUnit {
		p.Fault(n.Line, within+"per", "an override of a quota by the calendar has a limit alone: write a policy of its own for another period")
		return false
	}
	words := ""
	if within == "" {
		words = ", or day, week or month of the calendar"
	}
	l.Per = p.duration(n, within+"per", "per: 1m", minPer, limit.MaxPer, words)
	return l.Per > 0
}

// calendar reads what a quota by the calendar has in addition to limit and per, and reports whether that is good. It is decided
// by one node for all, unless the field where says otherwise: its periods are too long to be loose.
func (p *parser) calendar(made *parsedPolicy, fields map[string]*yaml.Node, where string) (ok bool) {
	ok = true
	fault := func(field, format string, args ...any) {
		p.Fault(fields[field].Line, field, format, args...)
		ok = false
	}
	c := &made.Limit.Calendar
	if c.Unit == limit.NoUnit {
		for _, field := range []string{"tz", "anchor"} {
			if fields[field] != nil {
				fault(field, "it is for quotas by the calendar: remove it, or write `per: day`, `per: week` or `per: month`")
			}
		}
		return ok
	}
	for _, field := range []string{"burst", "algorithm"} {
		if fields[field] != nil {
			fault(field, "a calendar quota has only a limit, which can be used at once: remove it")
		}
	}
	if n := fields["tz"]; n != nil {
		zone, isText := p.Text(n, "tz", "tz: Europe/Berlin")
		if _, err := time.LoadLocation(zone); !isText {
			ok = false
		} else if err != nil || zone == "Local" || zone == "" {
			fault("tz", "%q is no time zone: write one of the IANA database, for example `tz: Europe/Berlin`, or `tz: UTC`", units.Excerpt(zone))
		}
		if c.Zone = zone; zone == "UTC" {
			c.Zone = ""
		}
	}
	if n := fields["anchor"]; n != nil {
		text, isText := p.Text(n, "anchor", "anchor: 15")
		switch day, err := strconv.Atoi(text); {
		case !isText:
			ok = false
		case c.Unit == limit.Day:
			fault("anchor", "a day has none: it begins at midnight; remove it")
		case c.Unit == limit.Week:
			if c.Anchor = slices.Index(weekdays, strings.ToLower(text)) + 1; c.Anchor == 0 {
				fault("anchor", "%q%s: write the day that a week begins with, monday to sunday", units.Excerpt(text), units.DidYouMean(text, weekdays))
			}
		case err != nil || day < 1 || day > 31:
			fault("anchor", "%q: write the day that a month begins with, 1 to 31; a shorter month begins with its last day", units.Excerpt(text))
		default:
			c.Anchor = day
		}
		if c.Anchor == 1 {
			c.Anchor = 0
		}
	}
	if fields[where] != nil && made.Where == limit.WhereLeased && !made.WasShared {
		fault(where, "a calendar quota can't be leased in parts: remove it for strict%s", map[bool]string{true: ", or write node"}[where == "where"])
	}
	if fields[where] == nil || made.WasShared {
		made.Where = limit.WhereStrict
	}
	return ok
}

// A Condition says which answers a policy counts: those for whose status all comparisons hold.
type Condition []comparison

type comparison struct {
	operator string
	status   uint64
}

// operators say whether a comparison holds for a status that is below, at or above its number.
var operators = map[string][3]bool{
	"<": {true, false, false}, "<=": {true, true, false}, "==": {false, true, false}, "!=": {true, false, true}, ">=": {false, true, true}, ">": {false, false, true},
}

// Holds reports whether an answer of a status counts.
func (c Condition) Holds(status uint64) bool {
	return !slices.ContainsFunc(c, func(one comparison) bool { return !operators[one.operator][1+cmp.Compare(status, one.status)] })
}

// String is the condition as a file has it; "" for no condition.
func (c Condition) String() string {
	var all []string
	for _, one := range c {
		all = append(all, api.Outcome+" "+one.operator+" "+strconv.FormatUint(one.status, 10))
	}
	return strings.Join(all, " and ")
}

const (
	outcomeExample = "count_if: status >= 400"
	mostCompared   = 4
)

var compared = regexp.MustCompile(`^\s*status\s*(==|!=|>=|<=|>|<)\s*([1-5][0-9][0-9])\s*$`)

// outcome reads which answers count.
func (p *parser) outcome(n *yaml.Node) (c Condition) {
	text, ok := p.Text(n, "count_if", outcomeExample)
	if !ok {
		return nil
	}
	for part := range strings.SplitSeq(text, " and ") {
		found := compared.FindStringSubmatch(part)
		if found == nil || len(c) == mostCompared {
			p.Fault(n.Line, "count_if", "%q: write up to %d comparisons of status (==, !=, <, <=, >, >=) with 100 to 599, joined by `and`, for example `%s`", units.Excerpt(text), mostCompared, outcomeExample)
			return nil
		}
		status, _ := strconv.ParseUint(found[2], 10, 64) // three digits
		c = append(c, comparison{found[1], status})
	}
	return c
}
