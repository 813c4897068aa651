package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// maxAnswer bounds an answer. The largest, 10,000 keys, has about 8 MB.
const maxAnswer = 64 << 20

// A request is what is sent, as often as it takes.
type request struct {
	method, path    string
	query           url.Values
	wait            time.Duration // that the server is asked for, beside its work
	body            []byte
	contentType     string
	contentEncoding string
	idempotencyKey  string
	ifMatch         string
	onlyNew         bool // nothing of the name is there
}

// do sends r until it gets an answer that is final, and returns the body of a
// success. Any other final answer is an *Error, and the body comes with it. Every round asks each node,
// without a pause between them. What has an idempotency key and may have arrived stays with
// its node: the others may not know of it yet.
func (c *Client) do(ctx context.Context, r request) ([]byte, error) {
	first, others, attempts := c.nodes.first(), c.nodes.count()-1, 0
	for round := 0; ; round++ {
		var refused *Error
		var body []byte
		var err error
		for i := 0; i <= others; i++ {
			at := c.nodes.from(first, i)
			attempts++
			body, err = c.attempt(ctx, at, r)
			if err == nil {
				return body, nil
			}
			if ctx.Err() != nil {
				return body, fmt.Errorf("%s %s: %w", r.method, c.nodes.bases[at].JoinPath(r.path), context.Cause(ctx))
			}
			if refused = nil; errors.As(err, &refused) && !refused.temporary() {
				return body, tried(err, attempts)
			}
			if r.idempotencyKey != "" && mayHaveCounted(err) {
				first, others = at, 0
			}
		}
		if round >= c.opts.Retries {
			return body, tried(err, attempts)
		}
		wait(ctx, c.pause(round, refused))
	}
}

func tried(err error, attempts int) error {
	if attempts == 1 {
		return err
	}
	return fmt.Errorf("%w (tried %d times)", err, attempts)
}

// attempt is once, and notes whether the node works.
func (c *Client) attempt(ctx context.Context, at int, r request) ([]byte, error) {
	body, err := c.once(ctx, at, r)
	var refused *Error
	switch isError := errors.As(err, &refused); {
	case err == nil, isError && !refused.temporary():
		c.nodes.answered(at)
	case !errors.Is(ctx.Err(), context.Canceled): // else it is who asked that is gone
		c.nodes.failed(at)
	}
	return body, err
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	select {
	case <-timer.C:
	case <-ctx.Done():
		timer.Stop()
	}
}

// pause before the attempt after this one. The random part keeps clients that
// failed together from coming back together.
func (c *Client) pause(attempt int, refused *Error) time.Duration {
	d := c.opts.MaxPause
	if attempt < 30 {
		d = min(d, c.opts.MinPause<<attempt)
	}
	d -= time.Duration(c.random() * float64(d) / 2)
	if refused != nil {
		d = max(d, min(refused.After, c.opts.MaxPause))
	}
	return d
}

// once sends r to a node.
func (c *Client) once(ctx context.Context, at int, r request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout+r.wait)
	defer cancel()
	ctx, sent := c.watch(ctx)
	target := c.nodes.bases[at].JoinPath(r.path)
	target.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, target.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	if !sent.traced {
		req.GetBody = nil // else a transport may send it again by itself, after one try that may have counted
	}
	req.Header.Set("User-Agent", c.opts.UserAgent)
	req.Header.Set("Accept", "application/json")
	if c.opts.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	if r.contentEncoding != "" {
		req.Header.Set("Content-Encoding", r.contentEncoding)
	}
	if r.idempotencyKey != "" {
		req.Header.Set("Idempotency-Key", r.idempotencyKey)
	}
	if r.ifMatch != "" {
		req.Header.Set("If-Match", r.ifMatch)
	}
	if r.onlyNew {
		req.Header.Set("If-None-Match", "*")
	}
	answer, err := c.opts.HTTPClient.Do(req)
	if err != nil {
		return nil, sent.judge(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", target.Redacted(), err)
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("the answer of %s is larger than 64 MiB: ask for less at once", target.Redacted())
	}
	if answer.StatusCode/100 != 2 {
		return body, newError(answer, body)
	}
	return body, nil
}
