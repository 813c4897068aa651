package client

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/weir-counter/weir/api"
)

// Why asks why a request was denied, by Decision.Denial. Of several nodes it asks one after the other, until the
// one answers that keeps it. The error is an *Error with api.CodeDenialGone once newer denials took its place.
func (c *Client) Why(ctx context.Context, id string) (why api.DenialAnswer, err error) {
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
func (c *Client) Who(ctx context.Context, q WhoQuery) (api.WhoAnswer, error) {
	return ask[api.WhoAnswer](ctx, c, "/v1/limits/who", q.values())
}

// WhoOfAll is Who of all nodes that the client was given, since each knows what it denied itself: of a key that several denied it has the sum. missing are the
// errors of those that did not answer; err is set if none did.
func (c *Client) WhoOfAll(ctx context.Context, q WhoQuery) (who api.WhoAnswer, missing []error, err error) {
	byKey := map[[2]string]int{}
	for at := range c.nodes.count() {
		var one api.WhoAnswer
		text, err := c.attempt(ctx, at, request{method: http.MethodGet, path: "/v1/limits/who", query: q.values()})
		if err == nil {
			err = decode(text, &one)
		}
		if err != nil {
			missing = append(missing, err)
			continue
		}
		if len(missing) == at {
			who = api.WhoAnswer{At: one.At, WindowSeconds: one.WindowSeconds, Prefix: one.Prefix, Node: one.Node}
		} else {
			who.Node = ""
		}
		who.Forgotten += one.Forgotten
		for _, k := range one.Keys {
			i, known := byKey[[2]string{k.Limit, k.Key}]
			if !known {
				byKey[[2]string{k.Limit, k.Key}] = len(who.Keys)
				who.Keys = append(who.Keys, k)
				continue
			}
			of := &who.Keys[i]
			of.Denied += k.Denied
			if k.Since.Before(of.Since.Time) {
				of.Since = k.Since
			}
			if k.Last.After(of.Last.Time) { // it knows best when the key may pass
				of.Last, of.RetryAfterSeconds = k.Last, k.RetryAfterSeconds
			}
		}
	}
	if len(missing) == c.nodes.count() {
		return who, nil, errors.Join(missing...)
	}
	slices.SortStableFunc(who.Keys, func(a, b api.LimitedKey) int { return cmp.Compare(b.Denied, a.Denied) })
	if q.Most > 0 {
		who.Keys = who.Keys[:min(q.Most, len(who.Keys))]
	}
	return who, missing, nil
}

func (q WhoQuery) values() url.Values {
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
	return v
}
