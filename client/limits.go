package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
)

// Limits asks for the policies, with the decisions of a window; 0 is 5 minutes.
func (c *Client) Limits(ctx context.Context, window time.Duration) (Limits, error) {
	v := url.Values{}
	if window != 0 {
		v.Set("window", seconds(window))
	}
	return ask[Limits](ctx, c, "/v1/limits", v)
}

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
	var answer api.ForgetAnswer
	err = decode(text, &answer)
	return answer.Forgotten, err
}
