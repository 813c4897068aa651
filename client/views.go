package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
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

// WatchOverview gives the view of all keys to each, again and again, about once a second: the server makes a view
// once for all who look at the same. It returns when the stream ends, with why: an *Error of the server, the
// error of the connection, or that of ctx. So do the other Watch methods. Views are not retried: who still
// looks asks again.
func (c *Client) WatchOverview(ctx context.Context, q OverviewQuery, each func(api.OverviewAnswer)) error {
	v := viewOf(q.Window)
	if q.N != 0 {
		v.Set("n", strconv.Itoa(q.N))
	}
	if q.Prefix != "" {
		v.Set("prefix", q.Prefix)
	}
	return watchView(ctx, c, "/v1/views/overview", v, each)
}

// WatchKey gives the view of a key, whose lines are of the window (0: an hour).
func (c *Client) WatchKey(ctx context.Context, key string, window time.Duration, each func(api.KeyAnswer)) error {
	v := viewOf(window)
	v.Set("key", key)
	return watchView(ctx, c, "/v1/views/key", v, each)
}

// WatchLimits gives the view of the policies in a window (0: 5 minutes), with the fullest keys of the one of
// that name, if it is not empty.
func (c *Client) WatchLimits(ctx context.Context, name string, window time.Duration, each func(api.LimitsView)) error {
	v := viewOf(window)
	if name != "" {
		v.Set("name", name)
	}
	return watchView(ctx, c, "/v1/views/limits", v, each)
}

// WatchNodes gives the view of the nodes.
func (c *Client) WatchNodes(ctx context.Context, each func(api.NodesView)) error {
	return watchView(ctx, c, "/v1/views/nodes", url.Values{}, each)
}

func viewOf(window time.Duration) url.Values {
	v := url.Values{}
	if window != 0 {
		v.Set("window", seconds(window))
	}
	return v
}

// silence is longer than a server leaves a view as it is.
const silence = time.Minute

var errSilent = fmt.Errorf("the server has sent nothing for %v", silence)

// maxView bounds a view. The largest, of 100 policies, has about 300 KB.
const maxView = 8 << 20

// watchView reads one stream of views, of the node that answered last; where that fails, the next watch asks another.
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

// stream gives the data of each view of a stream of server-sent events to each, and returns its error, or why the stream ends.
func (c *Client) stream(ctx context.Context, at int, path string, query url.Values, each func(data []byte) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer quiet.Stop()
	target := c.nodes.bases[at].JoinPath(path)
	target.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", c.opts.UserAgent)
	req.Header.Set("Accept", "text/event-stream")
	if c.opts.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	answer, err := c.opts.HTTPClient.Do(req)
	if err != nil {
		return causeOf(ctx, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(answer.Body, maxView)) // what came of it is judged
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
			if err := json.Unmarshal([]byte(data), &p); err != nil {
				return fmt.Errorf("the answer is not that of a Weir server: %w", err)
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

// causeOf is why ctx ended, if it did, in place of the error that came of it.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}
