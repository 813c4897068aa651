package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
)

// OverviewQuery asks for the view of all keys.
type OverviewQuery struct {
	Window time.Duration // whole seconds; 0 is 5 minutes
	N      int           // how many keys, 1 to 100; 0 is 15
	Prefix string        // only keys that begin with it
}

// WatchOverview calls each with the view of all keys, about once a second. The server makes one view for all who watch the
// same. WatchOverview returns when the stream ends, with the reason: an *Error of the server, the error of the connection,
// or that ctx has ended. The other Watch methods do the same. None of them retries: call again to go on.
func (c *Client) WatchOverview(ctx context.Context, q OverviewQuery, each func(api.OverviewAnswer)) error {
	return watchView(ctx, c, "/v1/views/overview", values("window", length(q.Window), "n", number(q.N), "prefix", q.Prefix), each)
}

// WatchKey calls each with the view of a key, whose lines cover the window (0: an hour).
func (c *Client) WatchKey(ctx context.Context, key string, window time.Duration, each func(api.KeyAnswer)) error {
	v := values("window", length(window))
	v.Set("key", key)
	return watchView(ctx, c, "/v1/views/key", v, each)
}

// WatchLimits calls each with the view of the policies in a window (0: 5 minutes). It includes the fullest keys of the
// policy name, unless name is empty.
func (c *Client) WatchLimits(ctx context.Context, name string, window time.Duration, each func(api.LimitsView)) error {
	return watchView(ctx, c, "/v1/views/limits", values("window", length(window), "name", name), each)
}

// WatchNodes calls each with the view of the nodes.
func (c *Client) WatchNodes(ctx context.Context, each func(api.NodesView)) error {
	return watchView(ctx, c, "/v1/views/nodes", nil, each)
}

// silence is longer than a server leaves a view unchanged.
const silence = time.Minute

var errSilent = fmt.Errorf("the server has sent nothing for %v", silence)

// maxView bounds a view. The largest, of 100 policies, has about 300 KB.
const maxView = 8 << 20

// watchView reads one stream of views of the node that answered last. If that fails, the next watch asks another node.
func watchView[T any](ctx context.Context, c *Client, path string, query url.Values, each func(T)) error {
	at := c.nodes.first()
	err := c.stream(ctx, at, path, query, func(data []byte) error {
		c.nodes.answered(at)
		var view T
		if err := decode(data, &view); err != nil {
			return err
		}
		each(view)
		return nil
	})
	var refused *Error
	if ctx.Err() == nil && (!errors.As(err, &refused) || refused.temporary()) {
		c.nodes.failed(at)
	}
	return err
}

// stream calls each with the data of each view of a stream of server-sent events. It returns the error of each, or why the
// stream ended.
func (c *Client) stream(ctx context.Context, at int, path string, query url.Values, each func(data []byte) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer quiet.Stop()
	req, err := c.newRequest(ctx, at, request{method: http.MethodGet, path: path, query: query}, "text/event-stream", nil)
	if err != nil {
		return err
	}
	answer, err := c.opts.HTTPClient.Do(req)
	if err != nil {
		return causeOf(ctx, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(answer.Body, maxView)) // the part that was read says enough
		return newError(answer, body)
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, maxView)
	event := ""
	for lines.Scan() {
		quiet.Reset(silence)
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			event = name
		}
		data, ok := strings.CutPrefix(line, "data: ")
		switch {
		case !ok:
		case event == "problem":
			var p api.Problem
			if err := decode([]byte(data), &p); err != nil {
				return err
			}
			return &Error{Status: p.Status, Code: p.Code, Title: p.Title, Detail: p.Detail, Field: p.Field}
		case event == "view":
			if err := each([]byte(data)); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return causeOf(ctx, err)
	}
	return io.ErrUnexpectedEOF
}

// causeOf returns why ctx ended, or err if it did not end.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}
