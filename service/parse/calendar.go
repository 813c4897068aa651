package parse

import (
	"fmt"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/history/calendar"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/service/failure"
)

// Ago is Time that also takes a duration before now: -365d.
func Ago(field, text string, now time.Time) (time.Time, error) {
	ago, ok := strings.CutPrefix(text, "-")
	if !ok {
		return Time(field, text)
	}
	d, err := units.ParseDuration(ago)
	if err != nil {
		return time.Time{}, &failure.Error{Code: api.CodeInvalidTime, Field: field, Message: field + ": " + err.Error()}
	}
	t := now.Add(-d)
	if t.Unix() < 0 {
		return time.Time{}, &failure.Error{Code: api.CodeInvalidTime, Field: field, Message: fmt.Sprintf("%s: %s ago is before 1970", field, ago)}
	}
	return t, nil
}

// Align reads the unit and the time zone of spans of the calendar; no zone is UTC.
func Align(align, tz string) (calendar.Unit, *time.Location, error) {
	if align == "" {
		return "", nil, &failure.Error{Code: api.CodeInvalidParameter, Field: "tz", Message: "tz: a time zone is for spans of the calendar: give align=hour, day, week, month or year with it"}
	}
	unit, err := calendar.ParseUnit(align)
	if err != nil {
		return "", nil, &failure.Error{Code: api.CodeInvalidParameter, Field: "align", Message: "align: " + err.Error()}
	}
	if tz == "" {
		return unit, time.UTC, nil
	}
	zone, err := time.LoadLocation(tz)
	if err != nil || tz == "Local" {
		return "", nil, &failure.Error{Code: api.CodeInvalidParameter, Field: "tz", Message: fmt.Sprintf("tz: %.64q is no time zone: write a name such as Europe/Berlin, or UTC", tz)}
	}
	return unit, zone, nil
}
