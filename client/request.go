package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/units"
)

// maxAnswer bounds an answer. The largest, 10,000 keys, has about 8 MB.
const maxAnswer = 64 << 20

// request is what is sent, as often as it takes.
type request struct {
	method, path    string
	query           url.Values
	once            bool          // a second attempt could take effect twice
	wait            time.Duration // that the server is asked to wait, in addition to Options.Timeout
	body            []byte
	contentType     string
	contentEncoding string
	idempotencyKey  string
	replayed        *bool // set by a success: a request with this idempotency key was answered before
	ifMatch         string
	onlyNew         bool // nothing of the name exists
}

// get asks for an answer. fresh is how long the server may wait for hits of other nodes; 0: not at all.
func get[T any](ctx context.Context, c *Client, path string, query url.Values, fresh time.Duration) (answer T, err error) {
	if fresh != 0 {
		query.Set("fresh", units.FormatDuration(fresh))
	}
	return call[T](ctx, c, request{method: http.MethodGet, path: path, query: query, wait: fresh})
}

// post sends a body as JSON.
func post[T any](ctx context.Context, c *Client, r request, body any) (answer T, err error) {
	if r, err = r.withJSON(body); err != nil {
		return answer, err
	}
	return call[T](ctx, c, r)
}

// call sends a request and decodes the answer.
func call[T any](ctx context.Context, c *Client, r request) (answer T, err error) {
	text, err := c.do(ctx, r)
	if err != nil {
		return answer, err
	}
	return answer, decode(text, &answer)
}

func (r request) withJSON(body any) (request, error) {
	text, err := json.Marshal(body)
	r.method, r.body, r.contentType = http.MethodPost, text, "application/json"
	return r, err
}

func decode(body []byte, answer any) error {
	if err := json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("the answer is not that of a Weir server: %w", err)
	}
	return nil
}

// values returns the parameters that are not empty, of pairs of a name and a value.
func values(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}

// number is a parameter; "" for 0.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// length is a parameter; "" for 0.
func length(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return seconds(d)
}

func seconds(d time.Duration) string {
	if d%time.Second != 0 {
		return units.FormatDuration(d) // the server says what is wrong with it
	}
	return strconv.FormatInt(int64(d/time.Second), 10)
}

// moment is a parameter; "" for the zero time.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return units.FormatUnix(t)
}

// do sends r until it gets an answer that is final, and returns the body of a success. Any other final answer is an *Error,
// and its body is returned too. Every round asks each node, without a pause between them. A request with an idempotency key
// that may have arrived stays with its node: the others may not know the key yet.
func (c *Client) do(ctx context.Context, r request) ([]byte, error) {
	first, others, attempts := c.nodes.first(), c.nodes.count()-1, 0
	if r.once {
		return c.attempt(ctx, first, r)
	}
	for round := 0; ; round++ {
		var refused *Error
		var body []byte
		var err error
		for i := 0; i <= others; i++ {
			at := c.nodes.after(first, i)
			attempts++
			body, err = c.attempt(ctx, at, r)
			if err == nil {
				if r.replayed != nil && attempts > 1 {
					*r.replayed = false // by an attempt whose answer was lost
				}
				return body, nil
			}
			if ctx.Err() != nil {
				return body, fmt.Errorf("%s %s: %w", r.method, c.nodes.bases[at].JoinPath(r.path), context.Cause(ctx))
			}
			if refused = nil; errors.As(err, &refused) && !refused.temporary() {
				return body, tried(err, attempts)
			}
			if r.idempotencyKey != "" && mayHaveCounted(err) {
				first, others = at, 0
			}
		}
		if round >= c.opts.Retries {
			return body, tried(err, attempts)
		}
		_ = concurrency.Sleep(ctx, c.pause(round, refused)) // the next attempt says that ctx ended
	}
}

func tried(err error, attempts int) error {
	if attempts == 1 {
		return err
	}
	return fmt.Errorf("%w (tried %d times)", err, attempts)
}

// attempt asks a node once, and notes whether it works.
func (c *Client) attempt(ctx context.Context, at int, r request) ([]byte, error) {
	body, err := c.send(ctx, at, r)
	switch refused, isError := errors.AsType[*Error](err); {
	case err == nil, isError && !refused.temporary():
		c.nodes.answered(at)
	case !errors.Is(ctx.Err(), context.Canceled): // else the caller has gone
		c.nodes.failed(at)
	}
	return body, err
}

// pause returns the pause after an attempt. The random part keeps clients that failed together from returning together.
func (c *Client) pause(attempt int, refused *Error) time.Duration {
	d := c.opts.MaxPause
	if attempt < 30 {
		d = min(d, c.opts.MinPause<<attempt)
	}
	d -= time.Duration(c.random() * float64(d) / 2)
	if refused != nil {
		d = max(d, min(refused.After, c.opts.MaxPause))
	}
	return d
}

// send sends r to a node.
func (c *Client) send(ctx context.Context, at int, r request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout+r.wait)
	defer cancel()
	ctx, sent := c.watch(ctx)
	req, err := c.newRequest(ctx, at, r, "application/json", bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	if !sent.traced {
		req.GetBody = nil // else a transport may repeat it by itself, after an attempt that may have counted
	}
	for name, value := range map[string]string{
		"Content-Type": r.contentType, "Content-Encoding": r.contentEncoding, "Idempotency-Key": r.idempotencyKey, "If-Match": r.ifMatch,
	} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	if r.onlyNew {
		req.Header.Set("If-None-Match", "*")
	}
	answer, err := c.opts.HTTPClient.Do(req)
	if err != nil {
		return nil, sent.judge(err)
	}
	if r.replayed != nil && answer.StatusCode/100 == 2 {
		*r.replayed = answer.Header.Get("Idempotency-Replayed") == "true"
	}
	return read(req.URL, answer)
}

func (c *Client) newRequest(ctx context.Context, at int, r request, accept string, body io.Reader) (*http.Request, error) {
	target := c.nodes.bases[at].JoinPath(r.path)
	target.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, target.String(), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", c.opts.UserAgent)
	req.Header.Set("Accept", accept)
	if c.opts.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	return req, nil
}

// read returns the body of an answer of a server. If it is not a success, the error is an *Error.
func read(from *url.URL, answer *http.Response) ([]byte, error) {
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", from.Redacted(), err)
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("the answer of %s is larger than 64 MiB: ask for less at once", from.Redacted())
	}
	if answer.StatusCode/100 != 2 {
		return body, newError(answer, body)
	}
	return body, nil
}

// unsentError wraps the error of a request of which nothing was sent: no connection could be made.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

// neverSent reports whether err occurred before any part of the request was sent.
func neverSent(err error) bool {
	var unsent unsentError
	return errors.As(err, &unsent)
}

// sending records whether a request may have been sent.
type sending struct {
	maybe  atomic.Bool
	traced bool
}

// watch records whether the request of a context gets a connection. Without that, a request that waits in vain for a
// connection would look like one whose answer got lost.
func (c *Client) watch(ctx context.Context) (context.Context, *sending) {
	s := &sending{traced: c.traced}
	if !c.traced {
		s.maybe.Store(true)
		return ctx, s
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { s.maybe.Store(true) },
	}), s
}

// judge marks the error of a request that was never sent. A failed connection proves that only for a transport that is
// not traced, and that cannot repeat the request (send): a traced one may have failed in its second attempt.
func (s *sending) judge(err error) error {
	var op *net.OpError
	if !s.maybe.Load() || !s.traced && errors.As(err, &op) && op.Op == "dial" {
		return unsentError{err}
	}
	return err
}

// mayHaveCounted reports whether the hits of a request that ended with err may have been counted: it was sent, and no Weir
// server said that it counted nothing.
func mayHaveCounted(err error) bool {
	if refused, ok := errors.AsType[*Error](err); ok {
		return !refused.tookNothing()
	}
	return err != nil && !neverSent(err)
}

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
