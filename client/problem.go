package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
)

// Error is a request that the server refused, as its problem document (RFC 9457) says.
type Error struct {
	Status int      // of HTTP
	Code   api.Code // stable: branch on this; empty if it was not a Weir server that answered
	Title  string
	Detail string // what went wrong and what to do about it
	Field  string // the parameter at fault, may be empty

	// Missing are the nodes whose newer hits may be missing, if NotFresh.
	Missing []string

	// After is how long the server asks to wait before the next attempt.
	After time.Duration
}

func (e *Error) Error() string {
	text := e.Detail
	if text == "" {
		text = strings.ToLower(http.StatusText(e.Status))
	}
	if e.Code == "" {
		return fmt.Sprintf("the server answered %d: %s", e.Status, text)
	}
	return fmt.Sprintf("%s (%s)", text, e.Code)
}

// NothingCounted reports whether the server counted none of the hits: all were too late or rejected. The receipt says how many.
func (e *Error) NothingCounted() bool {
	return e.Code == api.CodeNothingCounted || e.Code == api.CodeTooLate
}

// NotDurable reports whether the server counted the hits, but did not have them on disk in time. The receipt says how many. They
// may still get there.
func (e *Error) NotDurable() bool { return e.Code == api.CodeNotDurable }

// NotFresh reports whether hits that other nodes took before the question were not included within its Fresh; Missing names the
// nodes. The client does not retry: it would wait for a multiple of Fresh.
func (e *Error) NotFresh() bool { return e.Code == api.CodeNotFresh }

// temporary reports whether the same request may succeed later. 502 and 504 are from a proxy that cannot reach its server.
func (e *Error) temporary() bool {
	if e.NotFresh() {
		return false
	}
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// denies reports whether the server does not know the caller, or refuses it: waiting does not help.
func (e *Error) denies() bool {
	return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden
}

// tookNothing reports whether the refusal says that nothing of this attempt was counted or taken.
func (e *Error) tookNothing() bool {
	switch e.Code {
	case "", api.CodeNotDurable, api.CodeClosed, api.CodeInternal, api.CodeStopping, api.CodeClientGone:
		// It was not Weir that answered, or the server stopped meanwhile. A proxy that did not forward the request answers 4xx.
		return e.Code == "" && e.Status < http.StatusInternalServerError
	}
	return true
}

// saysHTTPS matches the answers of Go's server and of nginx to a request without TLS on a port with TLS.
var saysHTTPS = regexp.MustCompile(`(?i)HTTP request (to an|was sent to) HTTPS (server|port)`)

// newError returns the Error for an answer that is not a success.
func newError(r *http.Response, body []byte) *Error {
	e := &Error{}
	if strings.HasPrefix(r.Header.Get("Content-Type"), api.ProblemType) {
		var p api.Problem
		if json.Unmarshal(body, &p) == nil {
			*e = Error{Code: p.Code, Title: p.Title, Detail: p.Detail, Field: p.Field, Missing: p.Missing}
		}
	}
	if e.Code == "" && r.StatusCode == http.StatusBadRequest && saysHTTPS.Match(body) {
		e.Detail = "it speaks TLS: use https://"
	}
	e.Status = r.StatusCode
	if after, err := time.ParseDuration(r.Header.Get("Retry-After") + "s"); err == nil && after > 0 {
		e.After = after
	}
	return e
}

// Receipt is what became of hits that were sent.
type Receipt struct {
	Counted  uint64 `json:"counted"`         // hits, late ones included
	Late     uint64 `json:"late"`            // of Counted: older than the newest hit of their key
	History  uint64 `json:"history"`         // of Counted: older than the server's retention, so in its history only
	TooLate  uint64 `json:"too_late"`        // hits not counted: older than what the server keeps
	Again    uint64 `json:"again,omitempty"` // of Counted: an earlier SendOnce sent them, and they were not counted again
	Rejected int    `json:"rejected_lines"`  // elements of the hits that were not counted because they are not valid
	// Reasons are the first 20 of these.
	Reasons []api.RejectedLine `json:"rejected"`
	// Durable reports that the hits counted are on the server's disk.
	Durable bool `json:"durable"`
}

// receiptOf returns the receipt of one request.
func receiptOf(a api.HitsAnswer) Receipt {
	return Receipt{Counted: a.Counted, Late: a.Late, History: a.History, TooLate: a.TooLate, Rejected: a.RejectedLines, Reasons: a.Rejected, Durable: a.Durable}
}

// Add adds what became of further hits.
func (r *Receipt) Add(more Receipt) {
	if more.Counted > 0 {
		r.Durable = more.Durable && (r.Durable || r.Counted == 0)
	}
	r.Counted += more.Counted
	r.Late += more.Late
	r.History += more.History
	r.TooLate += more.TooLate
	r.Again += more.Again
	r.Rejected += more.Rejected
	r.Reasons = append(r.Reasons, more.Reasons[:min(len(more.Reasons), api.MaxRejected-len(r.Reasons))]...)
}

// String is one line for a person.
func (r Receipt) String() string {
	s := fmt.Sprintf("%d counted, %d late, %d too late, %d rejected", r.Counted, r.Late, r.TooLate, r.Rejected)
	if r.History > 0 {
		s = fmt.Sprintf("%d counted, %d late, %d for history alone, %d too late, %d rejected", r.Counted, r.Late, r.History, r.TooLate, r.Rejected)
	}
	if r.Again > 0 {
		s += fmt.Sprintf(", %d sent before and not counted again", r.Again)
	}
	if len(r.Reasons) > 0 {
		s += ", the first one because " + r.Reasons[0].Message
	}
	return s
}
