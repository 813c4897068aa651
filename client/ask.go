package client

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
)

// CountQuery asks for every key in every window.
type CountQuery struct {
	Keys    []string
	Windows []time.Duration // whole seconds; none is 5 minutes
	At      time.Time       // the end of the windows; zero is the server's now

	// Fresh asks for answers that include all hits which any node took before the question. The server waits at most so long,
	// 1 ms to 10 s. If some are missing then, the error is an *Error for which NotFresh is true. 0 does not wait.
	Fresh time.Duration

	// Scope says whose hits are counted.
	Scope Scope

	// ByRegion asks for the part of each region in addition to the sum. It needs ScopeGlobal.
	ByRegion bool

	// Distinct asks for CountAnswer.Distinct: how many different ids the hits carried.
	Distinct bool
}

func (q CountQuery) values() url.Values {
	v := values("at", moment(q.At), "scope", string(q.Scope))
	v["key"] = q.Keys
	if q.ByRegion {
		v.Set("by", "region")
	}
	if q.Distinct {
		v.Set("distinct", "true")
	}
	for _, w := range q.Windows {
		v.Add("window", seconds(w))
	}
	return v
}

// Count returns counts: for each key, each window.
func (c *Client) Count(ctx context.Context, q CountQuery) ([]api.CountAnswer, error) {
	return get[api.OneOrCounts[api.CountAnswer]](ctx, c, "/v1/count", q.values(), q.Fresh)
}

// Rate returns counts and rates: for each key, each window.
func (c *Client) Rate(ctx context.Context, q CountQuery) ([]api.RateAnswer, error) {
	return get[api.OneOrCounts[api.RateAnswer]](ctx, c, "/v1/rate", q.values(), q.Fresh)
}

// TopQuery asks for the keys with the most hits.
type TopQuery struct {
	Window time.Duration // whole seconds; 0 is 5 minutes
	N      int           // 1 to 10,000; 0 is 10
	Prefix string        // only keys that begin with it
	At     time.Time     // the end of the window; zero is the server's now
	Fresh  time.Duration // see CountQuery
	Scope  Scope         // see CountQuery

	// Align asks history for whole hours, days, weeks, months or years instead of a window: "hour", "day" and so on. They begin
	// with the one that contains From, and end with the one that contains To or ends at To. Zeros are the server's now.
	Align    string
	From, To time.Time
	Zone     string // of Align; "" is UTC
}

// Top returns the keys with the most hits.
func (c *Client) Top(ctx context.Context, q TopQuery) (api.TopAnswer, error) {
	v := values("window", length(q.Window), "n", number(q.N), "prefix", q.Prefix, "at", moment(q.At), "from", moment(q.From), "to", moment(q.To),
		"align", q.Align, "tz", q.Zone, "scope", string(q.Scope))
	return get[api.TopAnswer](ctx, c, "/v1/top", v, q.Fresh)
}

// SeriesQuery asks for the hits of a key, window by window.
type SeriesQuery struct {
	Key      string
	From, To time.Time     // zero: an hour before To; the server's now
	Step     time.Duration // whole seconds; 0 is a minute
	Align    string        // hour, day, week, month or year, in place of Step, which is 0 then
	Zone     string        // of Align; "" is UTC
	Distinct bool          // with Align, asks for Point.Distinct: how many different ids the hits of each span carried
	Fresh    time.Duration // see CountQuery
	Scope    Scope         // see CountQuery
}

// Series returns the hits of a key, window by window.
func (c *Client) Series(ctx context.Context, q SeriesQuery) (api.SeriesAnswer, error) {
	v := values("from", moment(q.From), "to", moment(q.To), "step", length(q.Step), "align", q.Align, "tz", q.Zone, "scope", string(q.Scope))
	v.Set("key", q.Key)
	if q.Distinct {
		v.Set("distinct", "true")
	}
	return get[api.SeriesAnswer](ctx, c, "/v1/series", v, q.Fresh)
}

// KeysQuery asks for the names of keys.
type KeysQuery struct {
	Prefix string        // only keys that begin with it
	After  string        // only keys that sort after it
	Limit  int           // 0 is 100
	Fresh  time.Duration // see CountQuery
	Scope  Scope         // see CountQuery
}

// Keys returns the names of keys.
func (c *Client) Keys(ctx context.Context, q KeysQuery) (api.KeysAnswer, error) {
	v := values("prefix", q.Prefix, "after", q.After, "limit", number(q.Limit), "scope", string(q.Scope))
	return get[api.KeysAnswer](ctx, c, "/v1/keys", v, q.Fresh)
}

// segment returns a key or a name as one segment of a path.
func segment(name string) string {
	if strings.Trim(name, ".") == "" {
		return strings.ReplaceAll(name, ".", "%2E") // or it would be a step in the path
	}
	return url.PathEscape(name)
}

// Delete deletes a key and its hits, which stay counted under "*". For a key that the server does not hold the error is an
// *Error of code unknown_key. It is the same if an earlier attempt deleted the key and its answer got lost.
func (c *Client) Delete(ctx context.Context, key string) error {
	_, err := c.do(ctx, request{method: http.MethodDelete, path: "/v1/keys/" + segment(key)})
	return err
}

// DeleteQuery says which keys to delete.
type DeleteQuery struct {
	Prefix string // keys that begin with it
	After  string // only keys that sort after it
	Limits bool   // without After: also what these keys have used of limits, with their grants and bans
}

// DeletePrefix deletes keys and their history: at most 1000 at a time. While the answer has a Next, there may be more after it. It may
// be repeated.
func (c *Client) DeletePrefix(ctx context.Context, q DeleteQuery) (api.DeletedAnswer, error) {
	v := values("after", q.After)
	v.Set("prefix", q.Prefix)
	if q.Limits {
		v.Set("limits", "true")
	}
	return call[api.DeletedAnswer](ctx, c, request{method: http.MethodDelete, path: "/v1/keys", query: v})
}

// Stats returns what the server holds.
func (c *Client) Stats(ctx context.Context) (api.StatsAnswer, error) {
	return get[api.StatsAnswer](ctx, c, "/v1/stats", nil, 0)
}
