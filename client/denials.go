package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/weir-counter/weir/api"
)

// Why asks why a request was denied, by Decision.Denial. Of several nodes it asks one after the other, until the
// one answers that keeps it. The error is an *Error with api.CodeDenialGone once newer denials took its place.
func (c *Client) Why(ctx context.Context, id string) (why Denial, err error) {
	first := c.nodes.first()
	for i := range c.nodes.count() {
		var text []byte
		text, err = c.attempt(ctx, c.nodes.from(first, i), request{method: http.MethodGet, path: "/v1/denials/" + segment(id)})
		if err == nil {
			return why, decode(text, &why)
		}
		var refused *Error
		if ctx.Err() != nil || errors.As(err, &refused) && refused.Code != api.CodeOtherNode && refused.Status < http.StatusInternalServerError {
			break
		}
	}
	return why, err
}

// WhoQuery asks who is limited.
type WhoQuery struct {
	Window time.Duration // the keys were denied within it, at most 5 minutes; 0: one
	Prefix string        // only counted keys that begin with it
	Limit  string        // only of this limit; "": all, also those that requests bring along
	Most   int           // how many keys to list; 0: 20
}

// Who asks who is limited now, most denied first: the keys that one server denied.
func (c *Client) Who(ctx context.Context, q WhoQuery) (Who, error) {
	v := url.Values{}
	if q.Window != 0 {
		v.Set("window", seconds(q.Window))
	}
	if q.Prefix != "" {
		v.Set("prefix", q.Prefix)
	}
	if q.Limit != "" {
		v.Set("limit", q.Limit)
	}
	if q.Most != 0 {
		v.Set("n", strconv.Itoa(q.Most))
	}
	return ask[Who](ctx, c, "/v1/limits/who", v)
}
