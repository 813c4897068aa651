package parse

import (
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/service/failure"
)

// Window reads the window of a question, which field names; the engine checks its
// range.
func Window(field, text string) (time.Duration, error) {
	w, err := units.ParseDuration(text)
	if err != nil {
		return 0, &failure.Error{Code: api.CodeInvalidWindow, Field: field, Message: err.Error()}
	}
	return w, nil
}

// Time reads the time of a question, which field names; "" is the zero time, which stands
// for now.
func Time(field, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := units.ParseTime(text)
	if err != nil {
		return time.Time{}, &failure.Error{Code: api.CodeInvalidTime, Field: field, Message: field + ": " + err.Error()}
	}
	return t, nil
}

// LongestFresh is the longest wait for a fresh answer.
const LongestFresh = 10 * time.Second

// Fresh reads how long a question waits for a fresh answer; "" is 0, not at all.
func Fresh(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	within, err := units.ParseDuration(text)
	switch {
	case err != nil:
		return 0, &failure.Error{Code: api.CodeInvalidParameter, Field: "fresh", Message: "fresh: " + err.Error()}
	case within <= 0 || within > LongestFresh:
		return 0, &failure.Error{Code: api.CodeInvalidParameter, Field: "fresh",
			Message: fmt.Sprintf("fresh of %s: must be more than 0 and at most %s", text, units.FormatDuration(LongestFresh))}
	}
	return within, nil
}

// Named refuses a key that an answer in JSON could not name; the engine checks the rest.
func Named(key string) error {
	if !utf8.ValidString(key) {
		return &failure.Error{Code: api.CodeInvalidKey, Field: "key", Message: "key " + strconv.Quote(failure.Clip(key)) + " is not UTF-8"}
	}
	return nil
}
