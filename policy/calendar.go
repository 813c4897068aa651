package policy

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/nearest"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/limit"
)

// calendarUnits and weekdays are the words of the file: the units in the order of their constants, from Day.
var (
	calendarUnits = []string{limit.Day.String(), limit.Week.String(), limit.Month.String()}
	weekdays      = []string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}
)

// per reads a period over what l has, or a unit of the calendar.
func (p *parser) per(l *weir.Limit, n *yaml.Node, within string) bool {
	if unit := slices.Index(calendarUnits, n.Value); unit >= 0 && within == "" {
		l.Calendar.Unit = limit.Day + limit.Unit(unit)
		l.Per = l.Calendar.Unit.Period()
		return true
	}
	if l.Calendar.Unit != limit.NoUnit {
		p.fault(n.Line, within+"per", "an override of a quota by the calendar has a limit alone: write a policy of its own for another period")
		return false
	}
	words := ""
	if within == "" {
		words = ", or day, week or month of the calendar"
	}
	per, ok := p.period(n, within+"per", words)
	l.Per = per
	return ok
}

// calendar reads what a quota by the calendar has beside limit and per, and tells whether that is good. It is decided
// by one node for all, unless the field where says otherwise: its periods are too long to be loose.
func (p *parser) calendar(made *parsedPolicy, fields map[string]*yaml.Node, where string) (ok bool) {
	ok = true
	fault := func(field, format string, args ...any) {
		p.fault(fields[field].Line, field, format, args...)
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
			fault(field, "a quota by the calendar has a limit alone, all of it at once: remove it")
		}
	}
	if n := fields["tz"]; n != nil {
		zone, isText := p.text(n, "tz", "tz: Europe/Berlin")
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
		text, isText := p.text(n, "anchor", "anchor: 15")
		switch day, err := strconv.Atoi(text); {
		case !isText:
			ok = false
		case c.Unit == limit.Day:
			fault("anchor", "a day has none: it begins at midnight; remove it")
		case c.Unit == limit.Week:
			if c.Anchor = slices.Index(weekdays, strings.ToLower(text)) + 1; c.Anchor == 0 {
				fault("anchor", "%q%s: write the day that a week begins with, monday to sunday", units.Excerpt(text), nearest.DidYouMean(text, weekdays))
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
	if fields[where] != nil && made.Where == limit.WhereLeased {
		fault(where, "a quota by the calendar can't be lent in parts: remove it for strict%s", map[bool]string{true: ", or write shared or node"}[where == "where"])
	}
	if fields[where] == nil {
		made.Where = limit.WhereStrict
	}
	return ok
}
