package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Restore sends a backup, which is read once: it is not tried again. With Merge a call
// that failed may be repeated with the same backup, which counts once. Only ctx bounds the
// time. A backup with hits that the server counts already is an *Error of code
// counted_twice.
func (c *Client) Restore(ctx context.Context, backup io.Reader, mode RestoreMode) (done Restored, err error) {
	target := c.nodes.bases[c.nodes.first()].JoinPath("/v1/restore")
	target.RawQuery = url.Values{"mode": {string(mode)}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), io.NopCloser(backup))
	if err != nil {
		return done, err
	}
	req.Header.Set("User-Agent", c.opts.UserAgent)
	req.Header.Set("Content-Type", "application/octet-stream")
	if c.opts.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	answer, err := c.opts.HTTPClient.Do(req)
	if err != nil {
		return done, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return done, fmt.Errorf("read the answer of %s: %w", target.Redacted(), err)
	}
	if answer.StatusCode/100 != 2 {
		return done, newError(answer, body)
	}
	return done, decode(body, &done)
}
