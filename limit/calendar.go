package limit

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Calendar makes a quota of a Limit: N from one edge of the calendar to the next, where all of it is there again. The
// zero Calendar is none.
//
// It is kept as Fixed is, so that up to 2*N are admitted around an edge. A day begins with the first moment of its
// date in the zone, whatever the clocks there do.
type Calendar struct {
	Unit   Unit
	Anchor int    // of Week: 1 Monday to 7 Sunday, 0: Monday; of Month: the day, 1 to 31, 0: 1, the last day of shorter months
	Zone   string // of the IANA database, such as Europe/Berlin; "": UTC
}

// Unit is a period of the calendar.
type Unit uint8

// The units.
const (
	NoUnit Unit = iota
	Day
	Week
	Month
)

func (u Unit) String() string {
	switch u {
	case Day:
		return "day"
	case Week:
		return "week"
	case Month:
		return "month"
	}
	return fmt.Sprintf("unit %d", uint8(u))
}

// Period is the Per of a quota: its longest period, in whole days.
func (u Unit) Period() time.Duration {
	const day = 24 * time.Hour
	switch u {
	case Day:
		return day
	case Week:
		return 7 * day
	default:
		return 31 * day
	}
}

// String is for people: "month from day 15, Europe/Berlin".
func (c Calendar) String() string {
	if c.Unit == NoUnit {
		return ""
	}
	text := c.Unit.String()
	switch {
	case c.Unit == Week && c.Anchor > 1:
		text += " from " + time.Weekday(c.Anchor%7).String()
	case c.Unit == Month && c.Anchor > 1:
		text += fmt.Sprintf(" from day %d", c.Anchor)
	}
	if c.Zone == "" {
		return text + ", UTC"
	}
	return text + ", " + c.Zone
}

// most is the highest Anchor.
func (c Calendar) most() int {
	switch c.Unit {
	case Week:
		return 7
	case Month:
		return 31
	}
	return 0
}

// longer is by how much a period may be longer than Unit.Period, when clocks are set back in it or a zone changes.
const longer = 26 * time.Hour

// calendar is a Calendar made ready.
type calendar struct {
	spec    Calendar
	zone    *time.Location
	ahead   func() int64 // of the time of day, before the caller's times, in ns; nil: not at all
	current atomic.Pointer[span]
}

// span is a period: its number and its edges, in ns since 1970.
type span struct {
	number     int64
	start, end int64
}

func newCalendar(spec Calendar) (*calendar, error) {
	switch {
	case spec.Unit > Month:
		return nil, fmt.Errorf("limit: calendar unit %d: must be day, week or month", spec.Unit)
	case spec.Anchor < 0 || spec.Anchor > spec.most():
		return nil, fmt.Errorf("limit: anchor of %d: must be 1 to 7 of a week, 1 to 31 of a month, and a day has none", spec.Anchor)
	case spec.Zone == "Local" || len(spec.Zone) > 64:
		return nil, fmt.Errorf("limit: zone %.64q: name one of the IANA database, such as Europe/Berlin", spec.Zone)
	}
	zone, err := time.LoadLocation(spec.Zone)
	if err != nil {
		return nil, fmt.Errorf("limit: zone %q is not known: name one of the IANA database, such as Europe/Berlin", spec.Zone)
	}
	if spec.Anchor == 1 {
		spec.Anchor = 0
	}
	return &calendar{spec: spec, zone: zone}, nil
}

// ByTimeOfDay is p for a caller whose times are not the time of day: ahead says how much later that is now, in ns. The
// edges of a Calendar are by the time of day. Others are p itself.
func (p *Plan) ByTimeOfDay(ahead func() int64) *Plan {
	if p.calendar == nil {
		return p
	}
	made := *p
	made.calendar = &calendar{spec: p.calendar.spec, zone: p.calendar.zone, ahead: ahead}
	return &made
}

// period is the number of the interval of Fixed that a time lies in.
func (p *Plan) period(now int64) int64 {
	if p.calendar == nil {
		return now / p.interval
	}
	return p.calendar.at(clamp(now + p.calendar.offset())).number
}

// periodStart is when an interval begins.
func (p *Plan) periodStart(number int64) int64 {
	if p.calendar == nil {
		return number * p.interval
	}
	return p.calendar.start(number) - p.calendar.offset()
}

func (c *calendar) offset() int64 {
	if c.ahead == nil {
		return 0
	}
	return c.ahead()
}

// at is the period of a time of day.
func (c *calendar) at(now int64) span {
	if have := c.current.Load(); have != nil && have.start <= now && now < have.end {
		return *have
	}
	made := span{number: c.number(dateOf(now, c.zone))}
	made.start, made.end = c.edge(made.number), c.edge(made.number+1)
	for now >= made.end { // a clock that is set back over midnight has a date twice
		made = span{made.number + 1, made.end, c.edge(made.number + 2)}
	}
	c.current.Store(&made)
	return made
}

// start is where a period begins.
func (c *calendar) start(number int64) int64 {
	if have := c.current.Load(); have != nil {
		switch number {
		case have.number:
			return have.start
		case have.number + 1:
			return have.end
		}
	}
	return c.edge(number)
}

// dateOf is the date of a time in a zone, in days since 1970-01-01.
func dateOf(now int64, zone *time.Location) int64 {
	_, offset := time.Unix(0, now).In(zone).Zone()
	return floorDiv(floorDiv(now, int64(time.Second))+int64(offset), 24*60*60)
}

// number is the period that a date lies in; not below 0.
func (c *calendar) number(date int64) int64 {
	number := date
	switch c.spec.Unit {
	case Week: // 1970-01-05 was a Monday
		number = floorDiv(date-4-int64(max(c.spec.Anchor, 1)-1), 7) + 1
	case Month:
		year, month, day := time.Unix(date*24*60*60, 0).UTC().Date()
		number = int64(year-1970)*12 + int64(month) - 1
		if day >= c.dayOf(number) {
			number++ // the first is what was before the first edge
		}
	}
	return max(0, number)
}

// dayOf is the day on which a month has its edge.
func (c *calendar) dayOf(month int64) int {
	last := time.Date(1970, time.Month(month+2), 0, 0, 0, 0, 0, time.UTC).Day()
	return min(max(c.spec.Anchor, 1), last)
}

// firstDate is the date on which a period begins.
func (c *calendar) firstDate(number int64) int64 {
	switch c.spec.Unit {
	case Week:
		return (number-1)*7 + 4 + int64(max(c.spec.Anchor, 1)-1)
	case Month:
		month := number - 1
		if month < 0 {
			return -31
		}
		return time.Date(1970, time.Month(month+1), c.dayOf(month), 0, 0, 0, 0, time.UTC).Unix() / (24 * 60 * 60)
	}
	return number
}

// edge returns the first second of the date on which a period begins. It searches 26 hours on both sides of midnight
// UTC, because zones differ from UTC by at most a day and some hours.
func (c *calendar) edge(number int64) int64 {
	date := c.firstDate(number)
	low, high := date*24*60*60-26*60*60, date*24*60*60+26*60*60
	for high-low > 1 {
		if middle := low + (high-low)/2; dateOf(middle*int64(time.Second), c.zone) < date {
			low = middle
		} else {
			high = middle
		}
	}
	return high * int64(time.Second)
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
