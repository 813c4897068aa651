package client

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/weir-counter/weir/api"
)

// Why returns why a request was denied, by the Denial of a decision. It asks one node after the other, until the one that keeps
// the denial answers. Once newer denials have replaced it, the error is an *Error with api.CodeDenialGone.
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

// WhoQuery asks for the keys that limits deny.
type WhoQuery struct {
	Window time.Duration // the keys were denied within it, at most 5 minutes; 0: one
	Prefix string        // only counted keys that begin with it
	Limit  string        // only of this limit; "": all, also inline limits
	Most   int           // how many keys to list; 0: 20
}

// Who returns the keys that one server denied, most denied first.
func (c *Client) Who(ctx context.Context, q WhoQuery) (api.WhoAnswer, error) {
	return get[api.WhoAnswer](ctx, c, "/v1/limits/who", q.values(), 0)
}

// WhoOfAll is Who for all nodes of the client, because each knows only its own denials: it sums them up by key. The
// errors of nodes that did not answer are in missing; err is set if none did.
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
			if k.Last.After(of.Last.Time) { // this node knows best when the key may pass
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
	return values("window", length(q.Window), "prefix", q.Prefix, "limit", q.Limit, "n", number(q.Most))
}
