package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/weir-counter/weir/internal/units"
)

// A Hit is n hits of a key.
type Hit struct {
	Key string
	N   uint64    // 0 stands for 1
	At  time.Time // zero: when the server takes it
}

// maxBody is the size of a body after which a batch is cut: a quarter of what
// a server takes by default.
const maxBody = 4 << 20

// maxLines is how many hits a body has at most: half of what a server takes by
// default.
const maxLines = 50_000

// Send sends hits, in as many requests as it takes, one after the other. Bytes
// of a key that are not UTF-8 are sent as U+FFFD.
//
// The receipt says what became of them, also beside an error: then of the
// batches that were answered. That none of a batch was counted (all were too
// late, or rejected) is an *Error.
func (c *Client) Send(ctx context.Context, hits []Hit) (Receipt, error) {
	var total Receipt
	sent := 0
	for body := make([]byte, 0, 64<<10); len(hits) > 0; body = body[:0] {
		lines := 0
		for lines < len(hits) && lines < maxLines && len(body) < maxBody {
			body = appendHit(body, hits[lines])
			lines++
		}
		hits = hits[lines:]
		receipt, err := c.sendBody(ctx, body)
		for i := range receipt.Reasons {
			receipt.Reasons[i].Line += sent
		}
		sent += lines
		total.Add(receipt)
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

func (c *Client) sendBody(ctx context.Context, body []byte) (receipt Receipt, err error) {
	r := request{method: http.MethodPost, path: "/v1/hits", contentType: "application/x-ndjson"}
	r.contentEncoding = string(c.opts.Compression)
	if r.body, err = c.compress(body); err != nil {
		return receipt, err
	}
	answer, err := c.do(ctx, r)
	var refused *Error
	if err != nil && !(errors.As(err, &refused) && refused.NothingCounted()) {
		return receipt, err
	}
	if bad := decode(answer, &receipt); bad != nil {
		return Receipt{}, errors.Join(err, bad)
	}
	return receipt, err
}

// appendHit appends one line of NDJSON.
func appendHit(b []byte, h Hit) []byte {
	key, err := json.Marshal(h.Key)
	if err != nil {
		panic(err) // a string has no way to fail
	}
	b = append(b, `{"key":`...)
	b = append(b, key...)
	if h.N > 1 {
		b = append(b, `,"n":`...)
		b = strconv.AppendUint(b, h.N, 10)
	}
	if !h.At.IsZero() {
		b = append(b, `,"at":`...)
		b = units.AppendUnix(b, h.At)
	}
	return append(b, '}', '\n')
}

// compress gives a body that Send does not write to again.
func (c *Client) compress(body []byte) ([]byte, error) {
	switch c.opts.Compression {
	case Gzip:
		var b writer
		z := gzip.NewWriter(&b)
		if _, err := z.Write(body); err != nil {
			return nil, fmt.Errorf("compress a batch: %w", err)
		}
		if err := z.Close(); err != nil {
			return nil, fmt.Errorf("compress a batch: %w", err)
		}
		return b, nil
	case Zstd:
		z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, fmt.Errorf("compress a batch: %w", err)
		}
		return z.EncodeAll(body, nil), nil
	}
	return body, nil
}

type writer []byte

func (w *writer) Write(b []byte) (int, error) {
	*w = append(*w, b...)
	return len(b), nil
}
