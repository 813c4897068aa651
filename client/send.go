package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/units"
)

// Hit is n hits of a key.
type Hit struct {
	Key string
	N   uint64    // 0 stands for 1
	At  time.Time // zero: when the server takes it

	// Distinct is an id that the hit carries, such as a visitor's, of at most 512 bytes; "": none. CountQuery.Distinct asks
	// how many different ones there were. The server keeps no ids, but hashes.
	Distinct string
}

// maxBody is the size of a body after which a batch is cut: a quarter of what a server takes by default.
const maxBody = 4 << 20

// maxLines is how many hits a body has at most, half of what a server takes by default. A server that takes fewer gets fewer.
const maxLines = 50_000

// Send sends hits, in as many requests as needed, one after the other. Bytes of a key that are not UTF-8 are sent as U+FFFD.
//
// The receipt says what became of them; after an error, of the requests that were answered. If none of the hits of a request
// were counted, because all were too late or rejected, the error is an *Error. Send returns it after it has sent the other
// requests. Hits that an overloaded server did not take are sent again until it takes them or ctx ends; with Options.Retries
// -1 they are an *Error.
//
// Another node is tried while no attempt may have been counted. After an attempt without an answer, the batch stays with its
// node, which knows the idempotency key at once; the others know it a flush interval later. A Sender goes on with the other
// nodes meanwhile.
func (c *Client) Send(ctx context.Context, hits []Hit) (Receipt, error) {
	return c.sendHits(ctx, hits, func(int, []byte) string { return rand.Text() })
}

// SendOnce is Send for hits that a program may send again, for example after a restart. The same hits under the same id count
// once if a server took them within the last ten minutes, which is how long servers remember idempotency keys. Receipt.Again
// says how many hits were not counted again. Give different parts different ids.
func (c *Client) SendOnce(ctx context.Context, id string, hits []Hit) (Receipt, error) {
	return c.sendHits(ctx, hits, func(first int, body []byte) string {
		h := sha256.New()
		fmt.Fprintf(h, "%q %d %s\n", id, first, c.opts.Compression)
		h.Write(body)
		return hex.EncodeToString(h.Sum(nil))
	})
}

// sendHits sends each body under the idempotency key that name returns for it and the number of hits before it.
func (c *Client) sendHits(ctx context.Context, hits []Hit, name func(first int, body []byte) string) (Receipt, error) {
	total := Receipt{Reasons: []api.RejectedLine{}} // a list in JSON, also an empty one
	var nothing error                               // the first request of which nothing was counted
	sent, most := 0, maxLines
	for body := make([]byte, 0, 64<<10); len(hits) > 0; body = body[:0] {
		lines := 0
		for lines < len(hits) && lines < most && len(body) < maxBody {
			body = appendHit(body, hits[lines])
			lines++
		}
		answer, again, err := c.sendBody(ctx, body, name(sent, body))
		if from := answer.RetryFrom; err == nil && from > 0 && from <= lines {
			behind := &Error{Status: http.StatusServiceUnavailable, Code: api.CodeOverloaded, After: time.Second,
				Detail: fmt.Sprintf("the server is behind and took %d of %d hits", from-1, lines)}
			if c.opts.Retries < 0 {
				err = behind
			} else {
				cut(&answer, lines)
				lines = from - 1
				_ = concurrency.Sleep(ctx, c.pause(0, behind)) // the next attempt says that ctx ended
			}
		}
		if refused := (*Error)(nil); errors.As(err, &refused) && refused.Code == api.CodeTooManyLines && lines > 1 {
			most = lines / 2 // it takes smaller batches, and has counted none of this one
			continue
		}
		for i := range answer.Rejected {
			answer.Rejected[i].Line += sent
		}
		hits, sent = hits[lines:], sent+lines
		receipt := receiptOf(answer)
		if again {
			receipt.Again = receipt.Counted
		}
		total.Add(receipt)
		if refused := (*Error)(nil); errors.As(err, &refused) && refused.NothingCounted() {
			if nothing == nil {
				nothing = err
			}
			continue
		}
		if err != nil {
			return total, err
		}
	}
	return total, nothing
}

// cut removes the lines that are to be sent again from the answer to so many lines.
func cut(a *api.HitsAnswer, lines int) {
	a.RejectedLines -= lines - a.RetryFrom + 1
	a.Rejected = slices.DeleteFunc(a.Rejected, func(r api.RejectedLine) bool { return r.Line >= a.RetryFrom })
}

func (c *Client) sendBody(ctx context.Context, body []byte, idempotencyKey string) (answer api.HitsAnswer, again bool, err error) {
	r, err := c.hitsRequest(body, idempotencyKey)
	if err != nil {
		return answer, false, err
	}
	r.replayed = &again
	text, err := c.do(ctx, r)
	var refused *Error
	if err != nil && (!errors.As(err, &refused) || !refused.NothingCounted() && !refused.NotDurable()) {
		return answer, false, err
	}
	if bad := decode(text, &answer); bad != nil {
		return api.HitsAnswer{}, false, errors.Join(err, bad)
	}
	return answer, again, err
}

// hitsRequest returns the request that sends lines of hits. It keeps body, unless it compresses it.
func (c *Client) hitsRequest(body []byte, idempotencyKey string) (request, error) {
	r := request{
		method: http.MethodPost, path: "/v1/hits", body: body, contentType: "application/x-ndjson",
		contentEncoding: string(c.opts.Compression), idempotencyKey: idempotencyKey,
	}
	if c.opts.Durable {
		r.query = values("durable", "true")
	}
	switch c.opts.Compression {
	case Gzip:
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write(body)
		if err = errors.Join(err, z.Close()); err != nil {
			return r, fmt.Errorf("compress a batch: %w", err)
		}
		r.body = b.Bytes()
	case Zstd:
		z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return r, fmt.Errorf("compress a batch: %w", err)
		}
		r.body = z.EncodeAll(body, nil)
	}
	return r, nil
}

// appendHit appends one line of NDJSON.
func appendHit(b []byte, h Hit) []byte {
	b = append(b, `{"key":`...)
	b = appendText(b, h.Key)
	if h.N > 1 {
		b = append(b, `,"n":`...)
		b = strconv.AppendUint(b, h.N, 10)
	}
	if !h.At.IsZero() {
		b = append(b, `,"at":`...)
		b = units.AppendUnix(b, h.At)
	}
	if h.Distinct != "" {
		b = append(b, `,"distinct":`...)
		b = appendText(b, h.Distinct)
	}
	return append(b, '}', '\n')
}

// appendText appends a string as JSON.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, err := json.Marshal(text)
			if err != nil {
				panic(err) // a string has no way to fail
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"')
}
