package policy

import (
	"strings"
	"testing"
	_ "time/tzdata" // the zones, on machines without them

	"github.com/weir-counter/weir/limit"
)

func TestCalendars(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]limit.Calendar{
		"per: day":                                               {Unit: limit.Day},
		"per: day, tz: UTC":                                      {Unit: limit.Day},
		"per: week, tz: Asia/Tokyo":                              {Unit: limit.Week, Zone: "Asia/Tokyo"},
		"per: week, anchor: monday":                              {Unit: limit.Week},
		"per: week, anchor: Sunday":                              {Unit: limit.Week, Anchor: 7},
		"per: month, anchor: 15, tz: Europe/Berlin":              {Unit: limit.Month, Anchor: 15, Zone: "Europe/Berlin"},
		"per: month, anchor: 1, overrides: [{key: k, limit: 7}]": {Unit: limit.Month},
	} {
		set, err := Parse("p.yaml", []byte("limits:\n- {name: a, keys: \"k*\", limit: 5, "+fields+"}\n"))
		if err != nil {
			t.Errorf("%s: %v", fields, err)
			continue
		}
		p := set.Policies()[0]
		if p.Limit != (limit.Limit{N: 5, Per: want.Unit.Period(), Burst: 5, Algorithm: limit.Fixed, Calendar: want}) || p.Where != limit.WhereStrict {
			t.Errorf("%s: %+v", fields, p)
		}
		for _, o := range p.Overrides {
			if o.Limit != (limit.Limit{N: 7, Per: want.Unit.Period(), Burst: 7, Algorithm: limit.Fixed, Calendar: want}) {
				t.Errorf("%s: %+v", fields, o)
			}
		}
	}
	set, err := Parse("p.yaml", []byte("limits:\n- {name: a, keys: \"k*\", limit: 5, per: day, where: shared}\n- {name: b, keys: \"k*\", limit: 5, per: day, away: open}\n"))
	if err != nil || set.Policies()[0].Where != limit.WhereStrict || !set.Policies()[0].WasShared || set.Policies()[1].Away != AwayOpen {
		t.Errorf("%v", err)
	}
	if part := PartOf(set.Policies()[0].Limit, 2); part != (limit.Limit{N: 2, Calendar: limit.Calendar{Unit: limit.Day}}) {
		t.Errorf("a part: %+v", part)
	}
}

func TestFaultsOfCalendars(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]string{
		"per: month, tz: Mars/Base":                 "tz: \"Mars/Base\" is no time zone: write one of the IANA database, for example `tz: Europe/Berlin`, or `tz: UTC`",
		"per: month, tz: Local":                     "tz: \"Local\" is no time zone",
		"per: month, tz: []":                        "tz: a list: write for example",
		"per: month, anchor: 0":                     "anchor: \"0\": write the day that a month begins with, 1 to 31; a shorter month begins with its last day",
		"per: month, anchor: monday":                "anchor: \"monday\": write the day",
		"per: week, anchor: mond":                   "anchor: \"mond\", did you mean monday?: write the day that a week begins with, monday to sunday",
		"per: week, anchor: 1":                      "anchor: \"1\": write the day that a week",
		"per: day, anchor: 1":                       "anchor: a day has none",
		"per: 1d, anchor: 1":                        "anchor: it is for quotas by the calendar: remove it, or write `per: day`",
		"per: 1d, tz: UTC":                          "tz: it is for quotas by the calendar",
		"per: day, burst: 3":                        "burst: a calendar quota has only a limit, which can be used at once: remove it",
		"per: day, algorithm: gcra":                 "algorithm: a calendar quota has only a limit",
		"per: day, where: leased":                   "where: a calendar quota can't be leased in parts",
		"per: year":                                 "per: \"year\"",
		"per: day, away: open, where: node":         "away: it is for strict and leased limits",
		"per: day, overrides: [{key: k, per: 1m}]":  "overrides.per: an override of a quota by the calendar has a limit alone: write a policy of its own for another period",
		"per: 1m, overrides: [{key: k, per: day}]":  "overrides.per: \"day\"",
		"per: day, overrides: [{key: k, burst: 3}]": "overrides.limit: a quota by the calendar has a number alone",
	} {
		_, err := Parse("p.yaml", []byte("limits:\n- {name: a, keys: \"k*\", limit: 5, "+fields+"}\n"))
		if err == nil || !strings.Contains(err.Error(), "p.yaml:2: "+want) {
			t.Errorf("%s: %v, want %s", fields, err, want)
		}
	}
}
