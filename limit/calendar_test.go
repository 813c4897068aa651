package limit

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones, on machines without them
)

// The deliberately naive model of a calendar walks through time in steps of a quarter of an hour, and asks package time
// for the date at each.
type walk struct {
	spec  Calendar
	zone  *time.Location
	at    time.Time
	edges []int64 // Unix s
}

func (w *walk) until(end time.Time) {
	before := w.at.In(w.zone).Day()
	for w.at = w.at.Add(15 * time.Minute); w.at.Before(end); w.at = w.at.Add(15 * time.Minute) {
		local := w.at.In(w.zone)
		if local.Day() == before {
			continue
		}
		before = local.Day()
		switch w.spec.Unit {
		case Week:
			if (int(local.Weekday())+6)%7+1 != max(w.spec.Anchor, 1) {
				continue
			}
		case Month:
			lastDay := local.AddDate(0, 0, 1).Month() != local.Month()
			if local.Day() != max(w.spec.Anchor, 1) && !(lastDay && w.spec.Anchor > local.Day()) {
				continue
			}
		}
		w.edges = append(w.edges, w.at.Unix())
	}
}

var calendars = []Calendar{
	{Unit: Day}, {Unit: Week}, {Unit: Week, Anchor: 7}, {Unit: Month}, {Unit: Month, Anchor: 15}, {Unit: Month, Anchor: 29}, {Unit: Month, Anchor: 30}, {Unit: Month, Anchor: 31},
}

// Quotas begin and end where a walk through the calendar says, across clocks that are set forward and back, also at
// midnight, and through short months and leap years; and what they say of the next edge is true.
func TestCalendarAgainstWalk(t *testing.T) {
	t.Parallel()
	from, to := time.Date(2023, 12, 20, 0, 0, 0, 0, time.UTC), time.Date(2025, 3, 10, 0, 0, 0, 0, time.UTC)
	for _, zone := range []string{"", "Europe/Berlin", "America/New_York", "Asia/Beirut", "America/Havana", "Africa/Cairo", "Asia/Kathmandu", "Antarctica/Troll", "Pacific/Apia", "Pacific/Kiritimati", "Australia/Lord_Howe"} {
		for _, each := range calendars {
			each.Zone = zone
			t.Run(each.String(), func(t *testing.T) {
				plan, err := New(Limit{N: 5, Calendar: each})
				if err != nil {
					t.Fatal(err)
				}
				w := walk{spec: each, zone: plan.calendar.zone, at: from}
				w.until(to)
				quotaAgainstEdges(t, plan, w.edges)
			})
		}
	}
}

func quotaAgainstEdges(t *testing.T, plan *Plan, edges []int64) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, uint64(len(edges))))
	var s State
	next, used := 1, uint64(0)
	for now := edges[0] * int64(time.Second); ; now += random.Int64N((edges[len(edges)-1] - edges[0]) * int64(time.Second) / 3000) {
		if random.IntN(20) == 0 { // right at an edge, and before it
			now = max(now, edges[next]*int64(time.Second)-random.Int64N(2))
		}
		for next < len(edges) && now >= edges[next]*int64(time.Second) {
			next, used = next+1, 0
		}
		if next >= len(edges) {
			return
		}
		n := random.Uint64N(3)
		left := time.Duration(edges[next]*int64(time.Second) - now)
		v := plan.Take(&s, now, n)
		if v.Allowed != (used+n <= 5) {
			t.Fatalf("%v: %d more of %d: %+v", time.Unix(0, now).In(plan.calendar.zone), n, used, v)
		}
		if v.Allowed {
			used += n
		} else if v.RetryAfter != left {
			t.Fatalf("%v: again in %v, and the edge is in %v", time.Unix(0, now).In(plan.calendar.zone), v.RetryAfter, left)
		}
		if v.Remaining != 5-used || used > 0 && v.Reset != left || used == 0 && v.Reset != 0 {
			t.Fatalf("%v: %+v after %d, and the edge is in %v", time.Unix(0, now).In(plan.calendar.zone), v, used, left)
		}
		var copied State
		if _, err := plan.DecodeState(&copied, plan.AppendState(nil, &s)); err != nil || plan.Peek(&copied, now, 0) != plan.Peek(&s, now, 0) {
			t.Fatalf("%+v is read as %+v: %v", s, copied, err)
		}
		s = copied
	}
}

// In zones whose clocks are set back over midnight, a moment is still in one period alone, and periods in a row.
func TestCalendarOfDatesThatComeTwice(t *testing.T) {
	t.Parallel()
	for _, each := range calendars {
		each.Zone = "America/St_Johns" // until 2011 at a minute past midnight
		plan, err := New(Limit{N: 1, Calendar: each})
		if err != nil {
			t.Fatal(err)
		}
		last := int64(-1)
		for at := time.Date(2009, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2012; at = at.Add(7 * time.Minute) {
			now := at.UnixNano()
			number := plan.period(now)
			if start, end := plan.periodStart(number), plan.periodStart(number+1); number < last || last >= 0 && number > last+1 || now < start || now >= end {
				t.Fatalf("%v at %v: period %d after %d, %d to %d", each, at, number, last, start, end)
			}
			last = number
		}
	}
}

// A caller whose times are not the time of day has its edges by that all the same, and a clock that is set back grants nothing.
func TestCalendarByTimeOfDay(t *testing.T) {
	t.Parallel()
	plan, err := New(Limit{N: 1, Calendar: Calendar{Unit: Day, Zone: "Europe/Berlin"}})
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2024, 3, 30, 11, 0, 0, 0, time.UTC).UnixNano()
	ahead := int64(0)
	shifted := plan.ByTimeOfDay(func() int64 { return ahead })
	var s State
	now := noon - int64(100*time.Hour)
	ahead = int64(100 * time.Hour)
	if v := shifted.Take(&s, now, 1); !v.Allowed || v.Reset != 12*time.Hour {
		t.Errorf("%+v", v)
	}
	ahead -= int64(48 * time.Hour)
	if v := shifted.Take(&s, now, 1); v.Allowed {
		t.Errorf("set back: %+v", v)
	}
	ahead += int64(60 * time.Hour)
	if v := shifted.Take(&s, now, 1); !v.Allowed || v.Reset != 23*time.Hour { // clocks are set forward that day
		t.Errorf("at midnight: %+v", v)
	}
	plan.Shift(&s, 1<<50)
	if v := shifted.Take(&s, now, 1); v.Allowed {
		t.Errorf("moved to another clock: %+v", v)
	}
	if other := (&Plan{}).ByTimeOfDay(nil); other.calendar != nil {
		t.Error("a limit without a calendar has one")
	}
}

// Changing a quota, or making one of another limit, grants nothing; what was before the edge does not count.
func TestCalendarAdopts(t *testing.T) {
	t.Parallel()
	now := time.Date(2024, 2, 10, 12, 0, 0, 0, time.UTC).UnixNano()
	plan := func(l Limit) *Plan {
		p, err := New(l)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	month := plan(Limit{N: 10, Calendar: Calendar{Unit: Month}})
	for name, other := range map[string]*Plan{
		"smaller": plan(Limit{N: 3, Calendar: Calendar{Unit: Month}}), "another unit": plan(Limit{N: 10, Calendar: Calendar{Unit: Week}}), "another zone": plan(Limit{N: 10, Calendar: Calendar{Unit: Month, Zone: "Asia/Tokyo"}}),
		"window": plan(Limit{N: 10, Per: 31 * 24 * time.Hour}),
	} {
		var s State
		month.Take(&s, now, 4)
		other.Adopt(&s, month, now)
		if v := other.Peek(&s, now, 0); v.Remaining != other.limit.Burst-min(4, other.limit.Burst) {
			t.Errorf("%s: %+v", name, v)
		}
		month.Adopt(&s, other, now+1)
		if v := month.Peek(&s, now+1, 0); v.Remaining > 6 {
			t.Errorf("%s and back: %+v", name, v)
		}
	}
	window := plan(Limit{N: 10, Per: 30 * 24 * time.Hour})
	var s State
	window.Take(&s, now-int64(12*24*time.Hour), 3) // in January
	window.Take(&s, now, 2)
	month.Adopt(&s, window, now)
	if v := month.Peek(&s, now, 0); v.Remaining != 8 {
		t.Errorf("of a window: %+v", v)
	}
}

func TestCalendarsThatAreNone(t *testing.T) {
	t.Parallel()
	for want, l := range map[string]Limit{
		"zone \"Mars/Base\"": {N: 1, Calendar: Calendar{Unit: Day, Zone: "Mars/Base"}},
		"zone \"Local\"":     {N: 1, Calendar: Calendar{Unit: Day, Zone: "Local"}},
		"anchor of 32":       {N: 1, Calendar: Calendar{Unit: Month, Anchor: 32}},
		"anchor of 8":        {N: 1, Calendar: Calendar{Unit: Week, Anchor: 8}},
		"anchor of 1":        {N: 1, Calendar: Calendar{Unit: Day, Anchor: 1}},
		"without a day":      {N: 1, Per: time.Hour, Calendar: Calendar{Zone: "UTC"}},
		"no per, burst":      {N: 2, Burst: 1, Calendar: Calendar{Unit: Day}},
		"calendar unit 4":    {N: 2, Calendar: Calendar{Unit: 4}},
	} {
		if _, err := New(l); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", l, err)
		}
	}
	for c, want := range map[Calendar]string{
		{}: "", {Unit: Day}: "day, UTC", {Unit: Week, Anchor: 7, Zone: "Asia/Tokyo"}: "week from Sunday, Asia/Tokyo", {Unit: Month, Anchor: 15, Zone: "Europe/Berlin"}: "month from day 15, Europe/Berlin",
	} {
		if got := c.String(); got != want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func BenchmarkAllowCalendar(b *testing.B) {
	plan, err := New(Limit{N: 1 << 40, Calendar: Calendar{Unit: Month, Zone: "Europe/Berlin"}})
	if err != nil {
		b.Fatal(err)
	}
	var s State
	now := time.Now().UnixNano()
	for b.Loop() {
		plan.Allow(&s, now, 1)
	}
}

// What was admitted before the edge is not given back after it.
func TestRefundOfCalendar(t *testing.T) {
	t.Parallel()
	plan, err := New(Limit{N: 10, Calendar: Calendar{Unit: Day}})
	if err != nil {
		t.Fatal(err)
	}
	var s State
	evening := time.Date(2024, 2, 10, 23, 0, 0, 0, time.UTC).UnixNano()
	plan.Take(&s, evening, 4)
	if got, _ := plan.Refund(&s, evening+1, evening, evening, 1); got != 1 {
		t.Errorf("%d given back", got)
	}
	morning := evening + int64(2*time.Hour)
	plan.Take(&s, morning, 5)
	if got, _ := plan.Refund(&s, morning, evening, evening, 3); got != 0 {
		t.Errorf("%d of the day before given back", got)
	}
}
