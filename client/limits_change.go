package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/weir-counter/weir/api"
)

type (
	// Reset is what came of forgetting what a key has used of a limit.
	Reset = api.ResetAnswer
	// Grant is admissions that a key has beside a limit.
	Grant = api.GrantAnswer
	// Refund is what came of giving admissions back.
	Refund = api.RefundAnswer
)

// ResetLimit forgets what a key, as it is counted, has used of a limit, and takes its grant back. It may be sent again.
func (c *Client) ResetLimit(ctx context.Context, limit, key string) (Reset, error) {
	return change[Reset](ctx, c, request{method: http.MethodDelete, path: "/v1/limits/" + segment(limit) + "/keys/" + segment(key)})
}

// Grant gives a key, as it is counted, n admissions beside a limit until a time, in place of an earlier grant: it may be
// sent again. n of 0 takes what is left back; until is then not used.
func (c *Client) Grant(ctx context.Context, limit, key string, n uint64, until time.Time) (Grant, error) {
	v := url.Values{"limit": {limit}, "key": {key}, "n": {strconv.FormatUint(n, 10)}}
	if n > 0 {
		setTime(v, "until", until)
	}
	return change[Grant](ctx, c, request{method: http.MethodPost, path: "/v1/grants", query: v})
}

// Refund gives back what Allow took for checks, all at one time: with the zero time the newest admissions. It is tried
// once: sent again it would give back twice.
func (c *Client) Refund(ctx context.Context, taken time.Time, checks ...Check) (answer Refund, err error) {
	body, err := json.Marshal(asAllow(checks, false))
	if err != nil {
		return answer, err
	}
	v := url.Values{}
	setTime(v, "taken", taken)
	text, err := c.attempt(ctx, c.nodes.from(c.nodes.first(), 0), request{method: http.MethodPost, path: "/v1/refund", query: v, body: body, contentType: "application/json"})
	if err == nil {
		err = decode(text, &answer)
	}
	return answer, err
}

// change sends what may be sent again.
func change[T any](ctx context.Context, c *Client, r request) (answer T, err error) {
	text, err := c.do(ctx, r)
	if err == nil {
		err = decode(text, &answer)
	}
	return answer, err
}
