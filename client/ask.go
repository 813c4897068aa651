package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/weir-counter/weir/internal/units"
)

// Time is a point in time that JSON carries as Unix seconds.
type Time struct{ time.Time }

// MarshalJSON writes Unix seconds.
func (t Time) MarshalJSON() ([]byte, error) { return units.AppendUnix(nil, t.Time), nil }

// UnmarshalJSON reads Unix seconds.
func (t *Time) UnmarshalJSON(b []byte) (err error) {
	t.Time, err = units.ParseTime(string(b))
	return err
}

// A Count is the hits of a key in (At-Window, At].
type Count struct {
	Key           string `json:"key"`
	WindowSeconds int64  `json:"window_s"`
	At            Time   `json:"at"`
	Bounds
	Freshness
}

// A Rate is a count with its mean hits per second.
type Rate struct {
	Count
	PerSecond PerSecond `json:"per_second"`
}

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
}

func (q CountQuery) values() url.Values {
	v := url.Values{"key": q.Keys}
	for _, w := range q.Windows {
		v.Add("window", seconds(w))
	}
	setTime(v, "at", q.At)
	return v
}

// Count asks for counts: for each key, each window.
func (c *Client) Count(ctx context.Context, q CountQuery) ([]Count, error) {
	return answers[Count](ctx, c, "/v1/count", q.values(), q.Fresh)
}

// Rate asks for counts and rates: for each key, each window.
func (c *Client) Rate(ctx context.Context, q CountQuery) ([]Rate, error) {
	return answers[Rate](ctx, c, "/v1/rate", q.values(), q.Fresh)
}

// answers reads one answer, which stands alone, or several in a list.
func answers[T any](ctx context.Context, c *Client, path string, query url.Values, fresh time.Duration) ([]T, error) {
	raw, err := askFresh[json.RawMessage](ctx, c, path, query, fresh)
	if err != nil {
		return nil, err
	}
	var several struct {
		Counts []T `json:"counts"`
	}
	if err := decode(raw, &several); err != nil || several.Counts != nil {
		return several.Counts, err
	}
	var one T
	if err := decode(raw, &one); err != nil {
		return nil, err
	}
	return []T{one}, nil
}

// TopQuery asks for the keys with the most hits.
type TopQuery struct {
	Window time.Duration // whole seconds; 0 is 5 minutes
	N      int           // 1 to 10,000; 0 is 10
	Prefix string        // only keys that begin with it
	At     time.Time     // the end of the window; zero is the server's now
	Fresh  time.Duration // as of a CountQuery
}

// Top lists keys, most hits first.
type Top struct {
	WindowSeconds int64    `json:"window_s"`
	At            Time     `json:"at"`
	Prefix        string   `json:"prefix"`
	Keys          []TopKey `json:"keys"`
	Freshness
}

// A TopKey is one line of a Top.
type TopKey struct {
	Key string `json:"key"`
	Bounds
}

// Top asks for the keys with the most hits.
func (c *Client) Top(ctx context.Context, q TopQuery) (Top, error) {
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
	return askFresh[Top](ctx, c, "/v1/top", v, q.Fresh)
}

// SeriesQuery asks for the hits of a key, window by window.
type SeriesQuery struct {
	Key      string
	From, To time.Time     // zero: an hour before To; the server's now
	Step     time.Duration // whole seconds; 0 is a minute
	Fresh    time.Duration // as of a CountQuery
}

// Series is the hits of a key in adjoining windows of Step.
type Series struct {
	Key         string  `json:"key"`
	From        Time    `json:"from"`
	To          Time    `json:"to"`
	StepSeconds int64   `json:"step_s"`
	Points      []Point `json:"points"`
	Freshness
}

// A Point is the hits in (At-Step, At].
type Point struct {
	At Time `json:"at"`
	Bounds
}

// Series asks for the hits of a key, window by window.
func (c *Client) Series(ctx context.Context, q SeriesQuery) (Series, error) {
	v := url.Values{"key": {q.Key}}
	setTime(v, "from", q.From)
	setTime(v, "to", q.To)
	if q.Step != 0 {
		v.Set("step", seconds(q.Step))
	}
	return askFresh[Series](ctx, c, "/v1/series", v, q.Fresh)
}

// KeysQuery asks for the names of keys.
type KeysQuery struct {
	Prefix string        // only keys that begin with it
	After  string        // only keys that sort after it
	Limit  int           // 0 is 100
	Fresh  time.Duration // as of a CountQuery
}

// Keys lists keys, sorted by their bytes. Next is the After of the following
// page, empty on the last one.
type Keys struct {
	Keys []string `json:"keys"`
	Next string   `json:"next,omitempty"`
	Freshness
}

// Keys asks for the names of keys.
func (c *Client) Keys(ctx context.Context, q KeysQuery) (Keys, error) {
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
	return askFresh[Keys](ctx, c, "/v1/keys", v, q.Fresh)
}

// Delete deletes a key and its hits, which stay counted under "*". A key that the
// server does not hold is an *Error of code unknown_key; so is one that an attempt
// deleted whose answer was lost.
func (c *Client) Delete(ctx context.Context, key string) error {
	_, err := c.do(ctx, request{method: http.MethodDelete, path: "/v1/keys/" + segment(key)})
	return err
}

// Stats is what a server holds and what it dropped.
type Stats struct {
	Version      string `json:"version"`
	UptimeS      int64  `json:"uptime_s"`
	Now          Time   `json:"now"`
	Hits         uint64 `json:"hits"`
	Late         uint64 `json:"late"`
	TooLate      uint64 `json:"too_late"`
	TooFarAhead  uint64 `json:"too_far_ahead"`
	Ahead        uint64 `json:"ahead"`            // of other nodes or of what was stored, minutes ahead of this node's clock: they count when their second comes
	Newest       *Time  `json:"newest,omitempty"` // nil: no hit yet
	Keys         int    `json:"keys"`
	HotKeys      int    `json:"hot_keys"`
	EvictedKeys  uint64 `json:"evicted_keys"`
	EvictedHits  uint64 `json:"evicted_hits"`
	ExpiredKeys  uint64 `json:"expired_keys"`
	MemoryBytes  int64  `json:"memory_bytes"`
	MemoryBudget int64  `json:"memory_budget_bytes"`
	Partitions   int    `json:"partitions"`

	LimitStates  int    `json:"limit_states"`  // keys with limits in use, counted for each limit, and some that are no longer
	LimitBytes   int64  `json:"limit_bytes"`   // of these
	LimitRefused uint64 `json:"limit_refused"` // requests that no limit was asked for: its memory was full of limits in use

	Durable bool     `json:"durable"`           // hits are kept on disk: the server is not ephemeral
	Waiting int64    `json:"waiting"`           // hits that wait for the journal, one for each key and second
	Journal *Journal `json:"journal,omitempty"` // nil: the server is ephemeral

	Alarms []Alarm `json:"alarms,omitempty"` // what is wrong now
}

// An Alarm is something that is wrong with a server. It is there for as long as its cause.
type Alarm struct {
	Code     string `json:"code"` // stable: to branch on
	Message  string `json:"message"`
	Refusing bool   `json:"refusing,omitempty"` // /readyz is 503
}

// A Journal is what a server tells of its journal, since its start.
type Journal struct {
	Epoch            uint64  `json:"epoch"`    // the life of the process, counted up at each start
	Flushes          uint64  `json:"flushes"`  // that are on disk
	Bytes            uint64  `json:"bytes"`    // of them
	FlushSeconds     float64 `json:"flush_s"`  // that the last one took
	Failures         uint64  `json:"failures"` // of attempts to write a flush
	Failing          bool    `json:"failing"`  // the last attempt failed
	SnapshotRounds   uint64  `json:"snapshot_rounds"`
	ReplayedFlushes  uint64  `json:"replayed_flushes"`
	LossyFindings    int     `json:"lossy_findings"`    // damage found at the start that lost hits
	HarmlessFindings int     `json:"harmless_findings"` // damage found at the start that lost none
}

// Stats asks for what the server holds.
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	return ask[Stats](ctx, c, "/v1/stats", nil)
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
