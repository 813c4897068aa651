package server

import (
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/units"
)

const defaultWindow = 5 * time.Minute

// windowParam reads a window; the engine checks its range.
func windowParam(field, s string) (time.Duration, error) {
	w, err := units.ParseDuration(s)
	if err != nil {
		return 0, newProblem(api.CodeInvalidWindow, field, err.Error())
	}
	return w, nil
}

// windowParams reads the windows of a question; none means defaultWindow.
func windowParams(values []string) ([]time.Duration, error) {
	if len(values) == 0 {
		return []time.Duration{defaultWindow}, nil
	}
	windows := make([]time.Duration, len(values))
	for i, s := range values {
		w, err := windowParam("window", s)
		if err != nil {
			return nil, err
		}
		windows[i] = w
	}
	return windows, nil
}

// timeParam reads a time; empty is zero, which stands for now.
func timeParam(field, value string) (time.Time, error) {
	if value == "" {
		return time.Time{}, nil
	}
	t, err := units.ParseTime(unspace(value))
	if err != nil {
		return time.Time{}, newProblem(api.CodeInvalidTime, field, field+": "+err.Error())
	}
	return t, nil
}

// unspace puts back the plus of a zone such as +02:00: in a query a raw plus
// means a space.
func unspace(s string) string {
	if i := len(s) - len(" 02:00"); i > 0 && s[i] == ' ' {
		return s[:i] + "+" + s[i+1:]
	}
	return s
}

// now is the second that questions without a time are asked at. It is the
// engine's second as a whole, hits of its remaining fraction included: a
// window that ended within a second could not be exact. An engine on event
// time that has seen no hit has no time yet; any answers zero then.
func (s *Server) now() time.Time {
	now := s.engine.Now()
	if now.IsZero() {
		now = time.Now()
	}
	return now.Truncate(time.Second)
}

// keyParam refuses a key that an answer in JSON could not name; the engine
// checks the rest.
func keyParam(key string) error {
	if !utf8.ValidString(key) {
		return newProblem(api.CodeInvalidKey, "key", "key "+strconv.Quote(clip(key))+" is not UTF-8")
	}
	return nil
}
