// Package request reads what requests say as text, the same at every listener, and maps what they fail with to one type of
// error, with one of the codes of package api. Each listener maps the code to its protocol once.
//
// Invariant: a message says what went wrong and what to do, and names nothing that the caller may not know.
package request

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/history/calendar"
	"github.com/weir-counter/weir/internal/units"
)

// As returns err as an *api.Error, whose message includes what callers added to it. It converts errors of the engine and of
// a context.
func As(err error) *api.Error {
	if own, ok := errors.AsType[*api.Error](err); ok {
		if same, is := err.(*api.Error); is && same == own { //nolint:errorlint // what was added to it is distinguished
			return own
		}
		whole := *own
		whole.Message = err.Error()
		return &whole
	}
	if e, ok := errors.AsType[*engine.Error](err); ok {
		return &api.Error{Code: e.Code, Field: e.Field, Message: e.Message}
	}
	if errors.Is(err, context.Canceled) {
		return &api.Error{Code: api.CodeClientGone, Message: "the client closed the connection before the answer"}
	}
	return &api.Error{Code: api.CodeInternal, Message: "the server failed to answer; its log says why"}
}

// Explain returns err if it is nil or an *api.Error, which a client may read. It logs any other error with the message what,
// and returns instead.
func Explain(ctx context.Context, log *slog.Logger, err error, instead *api.Error, what string, args ...any) error {
	if _, is := errors.AsType[*api.Error](err); is || err == nil {
		return err
	}
	log.ErrorContext(ctx, what, append(args, "error", err)...)
	return instead
}

// Clip keeps an echo of a caller's own words short.
func Clip(s string) string { return units.Clip(s, 100) }

// The functions that read text are pure. What is wrong with a hit is a *Rejection, which allocates nothing; what is wrong
// with a question is an *api.Error that names the field.

// ParseWindow reads the window of a question, which field names; the engine checks its range.
func ParseWindow(field, text string) (time.Duration, error) {
	w, err := units.ParseDuration(text)
	if err != nil {
		return 0, &api.Error{Code: api.CodeInvalidWindow, Field: field, Message: err.Error()}
	}
	return w, nil
}

// ParseTime reads the time of a question, which field names; "" is the zero time, which stands for now.
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

// ParseAgo is ParseTime that also takes a duration before now: -365d.
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
		return "", nil, &api.Error{Code: api.CodeInvalidParameter, Field: "tz", Message: "tz needs align=hour, day, week, month or year"}
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
	Node   Scope = "node"   // hits that the asked node holds; it asks no other
	Region Scope = "region" // hits of its region: a server, or a cluster
	Global Scope = "global" // hits of all regions
)

// ParseScope reads a scope; "" is none.
func ParseScope(text string) (Scope, error) {
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

// Rejection is why a hit of a request was not counted.
type Rejection struct {
	Code    api.Code
	Message string
}

func Reject(code api.Code, message string) *Rejection { return &Rejection{code, message} }

var (
	rejectEmptyKey = Reject(api.CodeInvalidKey, "the key is empty")
	rejectLongKey  = Reject(api.CodeInvalidKey, "the key is longer than 512 bytes")
	rejectKeyUTF8  = Reject(api.CodeInvalidKey, "the key is not UTF-8")
	rejectLimitKey = Reject(api.CodeReservedKey, "keys limit:... are counted by limits alone, so that their counts are true: write another key")
	rejectCount    = Reject(api.CodeInvalidCount, "n must be a whole number from 1 to 1099511627776, in digits")
)

// CheckKey returns what is wrong with a key; nil: nothing. A key has 1 to 512 bytes of UTF-8, because answers are JSON,
// which could not name another.
func CheckKey(key string) *Rejection {
	switch {
	case len(key) == 0:
		return rejectEmptyKey
	case len(key) > engine.MaxKeyBytes:
		return rejectLongKey
	case !utf8.ValidString(key):
		return rejectKeyUTF8
	}
	return nil
}

// CheckHitKey is CheckKey for hits, which may not name the keys that limits count their decisions under.
func CheckHitKey(key string) *Rejection {
	if strings.HasPrefix(key, admit.HitPrefix) {
		return rejectLimitKey
	}
	return CheckKey(key)
}

// ParseCount reads how many hits: digits only, 1 to engine.MaxHits.
func ParseCount(text string) (uint64, *Rejection) {
	var n uint64
	for i := range len(text) {
		digit := uint64(text[i] - '0') // anything below '0' wraps to a large number
		if digit > 9 {
			return 0, rejectCount
		}
		if n = n*10 + digit; n > engine.MaxHits {
			return 0, rejectCount
		}
	}
	if n == 0 {
		return 0, rejectCount
	}
	return n, nil
}

// ParseAt reads the time of a hit: RFC 3339, or Unix seconds with a fraction if need be. It keeps no part of text.
func ParseAt(text string) (time.Time, *Rejection) {
	// The common form, whole Unix seconds, without the general reader.
	if len(text) > 0 && len(text) <= 10 {
		var seconds int64
		for i := range len(text) {
			c := text[i]
			if c < '0' || c > '9' {
				break
			}
			seconds = seconds*10 + int64(c-'0')
			if i == len(text)-1 {
				return time.Unix(seconds, 0), nil
			}
		}
	}
	t, err := units.ParseTime(text)
	if err != nil {
		return time.Time{}, Reject(api.CodeInvalidTime, "at: "+err.Error())
	}
	return t, nil
}
