package middleware

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/weir-counter/weir/internal/ratelimitfields"
)

// ErrNoKey is a request without the key of a rule that is not Optional.
var ErrNoKey = errors.New("the request has no key to be counted by")

// AnswerDenied answers with 429 and a problem document (RFC 9457), of the type that the
// RateLimit draft defines. It is the Denied of a Config without one.
func AnswerDenied(w http.ResponseWriter, _ *http.Request, d *Decision) {
	p := problem{
		Type:   "https://iana.org/assignments/http-problem-types#quota-exceeded",
		Title:  "Too many requests",
		Status: http.StatusTooManyRequests,
		Detail: "The request takes more than its limit lets through at once: ask for less.",
	}
	if !d.Never {
		p.Detail = fmt.Sprintf("Try again in %s s.", ratelimitfields.RetryAfter(d.RetryAfter))
	}
	for i := range d.Results {
		if r := &d.Results[i]; !r.Allowed && !r.Shadow {
			p.Violated = append(p.Violated, r.Limit)
		}
	}
	p.write(w)
}

// AnswerRefused answers with 400 if err is ErrNoKey, else with 503, and a problem
// document. It is the Refused of a Config without one.
func AnswerRefused(w http.ResponseWriter, _ *http.Request, err error) {
	if errors.Is(err, ErrNoKey) {
		problem{Title: "Bad request", Status: http.StatusBadRequest, Detail: "The request lacks what its limit is counted by."}.write(w)
		return
	}
	// The error is for the operator, who has it by OnError.
	w.Header().Set("Retry-After", ratelimitfields.RetryAfter(time.Second))
	problem{Title: "Service unavailable", Status: http.StatusServiceUnavailable, Detail: "The limit of this request can't be checked now: try again later."}.write(w)
}

// problem is a problem document. Without a type it is about:blank.
type problem struct {
	Type     string   `json:"type,omitempty"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail"`
	Violated []string `json:"violated-policies,omitempty"`
}

func (p problem) write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and a number
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // a client that is gone needs no answer
}
