package server

import (
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/units"
)

// windowParam reads a window; the engine checks its range.
func windowParam(field, s string) (time.Duration, error) {
	w, err := units.ParseDuration(s)
	if err != nil {
		return 0, newProblem(api.CodeInvalidWindow, field, err.Error())
	}
	return w, nil
}

// windowParams reads the windows of a question.
func windowParams(values []string) ([]time.Duration, error) {
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

// FreshParam is the question's wish for hits that other nodes have only just taken.
// It is exported for huma, and embedded in questions.
type FreshParam struct {
	Fresh string `query:"fresh" doc:"Answer only when all hits that any node took before this question are in, and wait at most so long for them: more than 0, at most 10s. 503 not_fresh, with the nodes that are missing, when they are not in by then. A server alone has all, always." example:"2s"`
}
