package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/units"
)

// CountQuery asks for every key in every window.
type CountQuery struct {
	Keys    []string
	Windows []time.Duration // whole seconds; none is 5 minutes
	At      time.Time       // the end of the windows; zero is the server's now
	// Fresh asks a cluster for answers that have all hits which any node took before
	// the question, waiting at most so long, 1 ms to 10 s: when some are missing by
	// then, there is an *Error for which NotFresh is true. 0: what the server knows, at
	// once.
	Fresh time.Duration
	// Scope says whose hits are counted.
	Scope Scope
	// ByRegion asks for the part of each region beside the sum, of scope global.
	ByRegion bool
}

func (q CountQuery) values() url.Values {
	v := url.Values{"key": q.Keys}
	setScope(v, q.Scope)
	if q.ByRegion {
		v.Set("by", "region")
	}
	for _, w := range q.Windows {
		v.Add("window", seconds(w))
	}
	setTime(v, "at", q.At)
	return v
}

// Count asks for counts: for each key, each window.
func (c *Client) Count(ctx context.Context, q CountQuery) ([]api.CountAnswer, error) {
	return askFresh[api.OneOrCounts[api.CountAnswer]](ctx, c, "/v1/count", q.values(), q.Fresh)
}

// Rate asks for counts and rates: for each key, each window.
func (c *Client) Rate(ctx context.Context, q CountQuery) ([]api.RateAnswer, error) {
	return askFresh[api.OneOrCounts[api.RateAnswer]](ctx, c, "/v1/rate", q.values(), q.Fresh)
}

// TopQuery asks for the keys with the most hits.
type TopQuery struct {
	Window time.Duration // whole seconds; 0 is 5 minutes
	N      int           // 1 to 10,000; 0 is 10
	Prefix string        // only keys that begin with it
	At     time.Time     // the end of the window; zero is the server's now
	Fresh  time.Duration // as of a CountQuery
	Scope  Scope         // as of a CountQuery

	// Align asks history for a time of whole hours, days, weeks, months or years in place of a window: "hour", "day" and so on, from the one
	// that From is in to the one that To is in, or ends at. Zeros are the server's now.
	Align    string
	From, To time.Time
	Zone     string // of Align; "" is UTC
}

// Top asks for the keys with the most hits.
func (c *Client) Top(ctx context.Context, q TopQuery) (api.TopAnswer, error) {
	v := url.Values{}
	if q.Window != 0 {
		v.Set("window", seconds(q.Window))
	}
	if q.N != 0 {
		v.Set("n", strconv.Itoa(q.N))
	}
	if q.Prefix != "" {
		v.Set("prefix", q.Prefix)
	}
	setTime(v, "at", q.At)
	setTime(v, "from", q.From)
	setTime(v, "to", q.To)
	setAlign(v, q.Align, q.Zone)
	setScope(v, q.Scope)
	return askFresh[api.TopAnswer](ctx, c, "/v1/top", v, q.Fresh)
}

// SeriesQuery asks for the hits of a key, window by window.
type SeriesQuery struct {
	Key      string
	From, To time.Time     // zero: an hour before To; the server's now
	Step     time.Duration // whole seconds; 0 is a minute
	Align    string        // hour, day, week, month or year, in place of Step, which is 0 then
	Zone     string        // of Align; "" is UTC
	Fresh    time.Duration // as of a CountQuery
	Scope    Scope         // as of a CountQuery
}

// Series asks for the hits of a key, window by window.
func (c *Client) Series(ctx context.Context, q SeriesQuery) (api.SeriesAnswer, error) {
	v := url.Values{"key": {q.Key}}
	setTime(v, "from", q.From)
	setTime(v, "to", q.To)
	if q.Step != 0 {
		v.Set("step", seconds(q.Step))
	}
	setScope(v, q.Scope)
	setAlign(v, q.Align, q.Zone)
	return askFresh[api.SeriesAnswer](ctx, c, "/v1/series", v, q.Fresh)
}

func setAlign(v url.Values, align, zone string) {
	if align != "" {
		v.Set("align", align)
	}
	if zone != "" {
		v.Set("tz", zone)
	}
}

// KeysQuery asks for the names of keys.
type KeysQuery struct {
	Prefix string        // only keys that begin with it
	After  string        // only keys that sort after it
	Limit  int           // 0 is 100
	Fresh  time.Duration // as of a CountQuery
	Scope  Scope         // as of a CountQuery
}

// Keys asks for the names of keys.
func (c *Client) Keys(ctx context.Context, q KeysQuery) (api.KeysAnswer, error) {
	v := url.Values{}
	if q.Prefix != "" {
		v.Set("prefix", q.Prefix)
	}
	if q.After != "" {
		v.Set("after", q.After)
	}
	if q.Limit != 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	setScope(v, q.Scope)
	return askFresh[api.KeysAnswer](ctx, c, "/v1/keys", v, q.Fresh)
}

// Delete deletes a key and its hits, which stay counted under "*". A key that the
// server does not hold is an *Error of code unknown_key; so is one that an attempt
// deleted whose answer was lost.
func (c *Client) Delete(ctx context.Context, key string) error {
	_, err := c.do(ctx, request{method: http.MethodDelete, path: "/v1/keys/" + segment(key)})
	return err
}

// DeleteQuery says which keys to delete.
type DeleteQuery struct {
	Prefix string // those that begin with it
	After  string // and sort after this
	Limits bool   // without After: what all that begin so have used of limits too, with their grants and bans
}

// DeletePrefix deletes keys and their history: at most 1000 at a time. While the answer has a Next, there may be more after it. It may
// be sent again.
func (c *Client) DeletePrefix(ctx context.Context, q DeleteQuery) (deleted api.DeletedAnswer, err error) {
	v := url.Values{"prefix": {q.Prefix}}
	if q.After != "" {
		v.Set("after", q.After)
	}
	if q.Limits {
		v.Set("limits", "true")
	}
	body, err := c.do(ctx, request{method: http.MethodDelete, path: "/v1/keys", query: v})
	if err != nil {
		return deleted, err
	}
	return deleted, json.Unmarshal(body, &deleted)
}

// Stats asks for what the server holds.
func (c *Client) Stats(ctx context.Context) (api.StatsAnswer, error) {
	return ask[api.StatsAnswer](ctx, c, "/v1/stats", nil)
}

func ask[T any](ctx context.Context, c *Client, path string, query url.Values) (answer T, err error) {
	return askFresh[T](ctx, c, path, query, 0)
}

func askFresh[T any](ctx context.Context, c *Client, path string, query url.Values, fresh time.Duration) (answer T, err error) {
	r := request{method: http.MethodGet, path: path, query: query}
	if fresh != 0 {
		r.wait = fresh
		r.query.Set("fresh", units.FormatDuration(r.wait))
	}
	body, err := c.do(ctx, r)
	if err != nil {
		return answer, err
	}
	return answer, decode(body, &answer)
}

func decode(body []byte, answer any) error {
	if err := json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("the answer is not that of a Weir server: %w", err)
	}
	return nil
}

func seconds(d time.Duration) string {
	if d%time.Second != 0 {
		return units.FormatDuration(d) // the server says what is wrong with it
	}
	return strconv.FormatInt(int64(d/time.Second), 10)
}

func setTime(v url.Values, name string, t time.Time) {
	if !t.IsZero() {
		v.Set(name, units.FormatUnix(t))
	}
}

func setScope(v url.Values, s Scope) {
	if s != "" {
		v.Set("scope", string(s))
	}
}

// maxAnswer bounds an answer. The largest, 10,000 keys, has about 8 MB.
const maxAnswer = 64 << 20

// A request is what is sent, as often as it takes.
type request struct {
	method, path    string
	query           url.Values
	wait            time.Duration // that the server is asked for, beside its work
	body            []byte
	contentType     string
	contentEncoding string
	idempotencyKey  string
	replayed        *bool // set by a success: a request of this idempotency key was answered before
	ifMatch         string
	onlyNew         bool // nothing of the name is there
}

// do sends r until it gets an answer that is final, and returns the body of a
// success. Any other final answer is an *Error, and the body comes with it. Every round asks each node,
// without a pause between them. What has an idempotency key and may have arrived stays with
// its node: the others may not know of it yet.
func (c *Client) do(ctx context.Context, r request) ([]byte, error) {
	first, others, attempts := c.nodes.first(), c.nodes.count()-1, 0
	for round := 0; ; round++ {
		var refused *Error
		var body []byte
		var err error
		for i := 0; i <= others; i++ {
			at := c.nodes.from(first, i)
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
		wait(ctx, c.pause(round, refused))
	}
}

func tried(err error, attempts int) error {
	if attempts == 1 {
		return err
	}
	return fmt.Errorf("%w (tried %d times)", err, attempts)
}

// attempt is once, and notes whether the node works.
func (c *Client) attempt(ctx context.Context, at int, r request) ([]byte, error) {
	body, err := c.once(ctx, at, r)
	var refused *Error
	switch isError := errors.As(err, &refused); {
	case err == nil, isError && !refused.temporary():
		c.nodes.answered(at)
	case !errors.Is(ctx.Err(), context.Canceled): // else it is who asked that is gone
		c.nodes.failed(at)
	}
	return body, err
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	select {
	case <-timer.C:
	case <-ctx.Done():
		timer.Stop()
	}
}

// pause before the attempt after this one. The random part keeps clients that
// failed together from coming back together.
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

// once sends r to a node.
func (c *Client) once(ctx context.Context, at int, r request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout+r.wait)
	defer cancel()
	ctx, sent := c.watch(ctx)
	target := c.nodes.bases[at].JoinPath(r.path)
	target.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, target.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	if !sent.traced {
		req.GetBody = nil // else a transport may send it again by itself, after one try that may have counted
	}
	req.Header.Set("User-Agent", c.opts.UserAgent)
	req.Header.Set("Accept", "application/json")
	if c.opts.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	if r.contentEncoding != "" {
		req.Header.Set("Content-Encoding", r.contentEncoding)
	}
	if r.idempotencyKey != "" {
		req.Header.Set("Idempotency-Key", r.idempotencyKey)
	}
	if r.ifMatch != "" {
		req.Header.Set("If-Match", r.ifMatch)
	}
	if r.onlyNew {
		req.Header.Set("If-None-Match", "*")
	}
	answer, err := c.opts.HTTPClient.Do(req)
	if err != nil {
		return nil, sent.judge(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", target.Redacted(), err)
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("the answer of %s is larger than 64 MiB: ask for less at once", target.Redacted())
	}
	if answer.StatusCode/100 != 2 {
		return body, newError(answer, body)
	}
	if r.replayed != nil {
		*r.replayed = answer.Header.Get("Idempotency-Replayed") == "true"
	}
	return body, nil
}
