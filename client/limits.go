package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Limits is the policies of a server, in order of application, and how they decided in
// (At-Window, At].
type Limits struct {
	WindowSeconds int64         `json:"window_s"`
	At            Time          `json:"at"`
	File          *PolicyFile   `json:"file,omitempty"` // nil: the policies come from no file
	Limits        []LimitPolicy `json:"limits"`
}

// A PolicyFile is where policies come from.
type PolicyFile struct {
	Path     string `json:"path"` // on the server
	LoadedAt Time   `json:"loaded_at"`
	Error    string `json:"error,omitempty"` // why the newest file is not in use
	ErrorAt  *Time  `json:"error_at,omitempty"`
}

// A LimitPolicy is one policy. Allowed, Denied and ShadowDenied are decisions in the
// window.
type LimitPolicy struct {
	Name         string  `json:"name"`
	Keys         string  `json:"keys"`         // pattern of the requests' keys that it is for
	By           string  `json:"by,omitempty"` // the key that is counted; empty: the request's
	Limit        uint64  `json:"limit"`
	PerSeconds   float64 `json:"per_s"`
	Burst        uint64  `json:"burst"`
	Algorithm    string  `json:"algorithm"`
	Mode         string  `json:"mode"`
	Where        string  `json:"where"`          // shared, node or strict
	Away         string  `json:"away,omitempty"` // of a strict one: closed, open or share
	Last         bool    `json:"last,omitempty"`
	Overrides    int     `json:"overrides"` // keys with another limit
	Allowed      Bounds  `json:"allowed"`
	Denied       Bounds  `json:"denied"`
	ShadowDenied Bounds  `json:"shadow_denied"`
}

// Per is PerSeconds as a duration.
func (p LimitPolicy) Per() time.Duration { return fromSeconds(p.PerSeconds) }

// Limits asks for the policies, with the decisions of a window; 0 is 5 minutes.
func (c *Client) Limits(ctx context.Context, window time.Duration) (Limits, error) {
	v := url.Values{}
	if window != 0 {
		v.Set("window", seconds(window))
	}
	return ask[Limits](ctx, c, "/v1/limits", v)
}

// LimitKeys is the keys that have used most of a limit, by the share of their burst.
type LimitKeys struct {
	Name string     `json:"name"`
	Keys []LimitKey `json:"keys"`
}

// A LimitKey is what one key has used of a limit.
type LimitKey struct {
	Key          string  `json:"key"`
	Used         uint64  `json:"used"`
	Burst        uint64  `json:"burst"`
	Remaining    uint64  `json:"remaining"`
	Share        float64 `json:"share"` // Used / Burst: a key at 1 is denied now
	ResetSeconds float64 `json:"reset_s"`
}

// Reset is ResetSeconds as a duration: until the whole burst is there again.
func (k LimitKey) Reset() time.Duration { return fromSeconds(k.ResetSeconds) }

// LimitKeys asks for the keys that have used most of a policy, at most most of them; 0
// is 20.
func (c *Client) LimitKeys(ctx context.Context, name string, most int) (LimitKeys, error) {
	v := url.Values{}
	if most != 0 {
		v.Set("n", strconv.Itoa(most))
	}
	return ask[LimitKeys](ctx, c, "/v1/limits/"+segment(name)+"/keys", v)
}

// segment writes a key or a name as one segment of a path.
func segment(name string) string {
	if strings.Trim(name, ".") == "" {
		return strings.ReplaceAll(name, ".", "%2E") // or it would be a step in the path
	}
	return url.PathEscape(name)
}

// ForgetInline forgets what keys have used of the limits of a name that requests brought
// along (Check.Inline), or with "" of all such. It returns how many keys the server had
// of them, counted for each limit. Other nodes of a cluster forget a flush interval later.
func (c *Client) ForgetInline(ctx context.Context, name string) (forgotten int, err error) {
	r := request{method: http.MethodDelete, path: "/v1/limits/inline"}
	if name != "" {
		r.query = url.Values{"name": {name}}
	}
	text, err := c.do(ctx, r)
	if err != nil {
		return 0, err
	}
	var answer struct {
		Forgotten int `json:"forgotten"`
	}
	err = decode(text, &answer)
	return answer.Forgotten, err
}
