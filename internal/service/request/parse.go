package request

import (
	"fmt"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/history/calendar"
	"github.com/weir-counter/weir/internal/units"
)

// Reading text is pure. Of a hit it returns a *Rejection, which allocates nothing; of a question an *api.Error that
// names the field.

// ParseWindow reads the window of a question, which field names; the engine checks its
// range.
func ParseWindow(field, text string) (time.Duration, error) {
	w, err := units.ParseDuration(text)
	if err != nil {
		return 0, &api.Error{Code: api.CodeInvalidWindow, Field: field, Message: err.Error()}
	}
	return w, nil
}

// ParseTime reads the time of a question, which field names; "" is the zero time, which stands
// for now.
func ParseTime(field, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := units.ParseTime(text)
	if err != nil {
		return time.Time{}, &api.Error{Code: api.CodeInvalidTime, Field: field, Message: field + ": " + err.Error()}
	}
	return t, nil
}

// LongestFresh is the longest wait for a fresh answer.
const LongestFresh = 10 * time.Second

// ParseFresh reads how long a question waits for a fresh answer; "" is 0, not at all.
func ParseFresh(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	within, err := units.ParseDuration(text)
	switch {
	case err != nil:
		return 0, &api.Error{Code: api.CodeInvalidParameter, Field: "fresh", Message: "fresh: " + err.Error()}
	case within <= 0 || within > LongestFresh:
		return 0, &api.Error{Code: api.CodeInvalidParameter, Field: "fresh",
			Message: fmt.Sprintf("fresh of %s: must be more than 0 and at most %s", text, units.FormatDuration(LongestFresh))}
	}
	return within, nil
}

// ParseAgo is Time that also takes a duration before now: -365d.
func ParseAgo(field, text string, now time.Time) (time.Time, error) {
	ago, ok := strings.CutPrefix(text, "-")
	if !ok {
		return ParseTime(field, text)
	}
	d, err := units.ParseDuration(ago)
	if err != nil {
		return time.Time{}, &api.Error{Code: api.CodeInvalidTime, Field: field, Message: field + ": " + err.Error()}
	}
	t := now.Add(-d)
	if t.Unix() < 0 {
		return time.Time{}, &api.Error{Code: api.CodeInvalidTime, Field: field, Message: fmt.Sprintf("%s: %s ago is before 1970", field, ago)}
	}
	return t, nil
}

// ParseAlign reads the unit and the time zone of spans of the calendar; no zone is UTC.
func ParseAlign(align, tz string) (calendar.Unit, *time.Location, error) {
	if align == "" {
		return "", nil, &api.Error{Code: api.CodeInvalidParameter, Field: "tz", Message: "tz: a time zone is for spans of the calendar: give align=hour, day, week, month or year with it"}
	}
	unit, err := calendar.ParseUnit(align)
	if err != nil {
		return "", nil, &api.Error{Code: api.CodeInvalidParameter, Field: "align", Message: "align: " + err.Error()}
	}
	if tz == "" {
		return unit, time.UTC, nil
	}
	zone, err := time.LoadLocation(tz)
	if err != nil || tz == "Local" {
		return "", nil, &api.Error{Code: api.CodeInvalidParameter, Field: "tz", Message: fmt.Sprintf("tz: %.64q is no time zone: write a name such as Europe/Berlin, or UTC", tz)}
	}
	return unit, zone, nil
}

// Scope says whose hits a question is about.
type Scope string

// The scopes.
const (
	Node   Scope = "node"   // those that the node holds which is asked: no other is
	Region Scope = "region" // hits of its region: a server, or a cluster
	Global Scope = "global" // and hits of all other regions that are known
)

// ScopeOf reads a scope; "" is none.
func ScopeOf(text string) (Scope, error) {
	switch s := Scope(text); s {
	case "", Node, Region, Global:
		return s, nil
	}
	return "", &api.Error{Code: api.CodeInvalidParameter, Field: "scope", Message: fmt.Sprintf("scope must be %s, %s or %s", Node, Region, Global)}
}

// ParseByRegion reads what an answer is to be split by: "" is nothing, else it must be region.
func ParseByRegion(text string) (bool, error) {
	switch text {
	case "":
		return false, nil
	case "region":
		return true, nil
	}
	return false, &api.Error{Code: api.CodeInvalidParameter, Field: "by", Message: "by must be region"}
}

// Milliseconds rounds up, so that a client that waits for so long has waited long enough.
func Milliseconds(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1) / time.Millisecond * time.Millisecond
}
