package client

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/weir-counter/weir/api"
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

// maxLines is how many hits a body has at most, half of what a server takes by
// default. A server that takes fewer gets fewer.
const maxLines = 50_000

// Send sends hits, in as many requests as it takes, one after the other. Bytes
// of a key that are not UTF-8 are sent as U+FFFD.
//
// The receipt says what became of them, also beside an error: then of the
// requests that were answered. That none of a request's hits were counted (all
// were too late, or rejected) is an *Error, which comes after the other requests
// were sent too. Hits of a batch that an overloaded server
// did not take are sent again until it takes them or ctx ends; with
// Options.Retries -1 they are an *Error.
//
// Of several nodes another one is tried while no attempt may have been counted. After one that got no
// answer the batch stays with its node, which knows the idempotency key at once, while the others
// learn of it a flush interval later. A Sender goes on with the other nodes meanwhile.
func (c *Client) Send(ctx context.Context, hits []Hit) (Receipt, error) {
	return c.send(ctx, hits, func(int, []byte) string { return rand.Text() })
}

// SendOnce is Send of hits that a program may send again, for example after it was started again. The same hits
// under the same id count once if a server took them within the last ten minutes, which is how long servers
// remember idempotency keys; Receipt.Again says how many hits these are. Give different parts different ids.
func (c *Client) SendOnce(ctx context.Context, id string, hits []Hit) (Receipt, error) {
	return c.send(ctx, hits, func(first int, body []byte) string {
		h := sha256.New()
		fmt.Fprintf(h, "%q %d %s\n", id, first, c.opts.Compression)
		h.Write(body)
		return hex.EncodeToString(h.Sum(nil))
	})
}

// send sends each body under the idempotency key that name returns for it and the number of hits before it.
func (c *Client) send(ctx context.Context, hits []Hit, name func(first int, body []byte) string) (Receipt, error) {
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
				wait(ctx, c.pause(0, behind))
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

// cut takes the lines that are to be sent again out of the answer to so many
// lines.
func cut(a *api.HitsAnswer, lines int) {
	a.RejectedLines -= lines - a.RetryFrom + 1
	a.Rejected = slices.DeleteFunc(a.Rejected, func(r api.RejectedLine) bool { return r.Line >= a.RetryFrom })
}

func (c *Client) sendBody(ctx context.Context, body []byte, idempotencyKey string) (answer api.HitsAnswer, again bool, err error) {
	r := request{
		method: http.MethodPost, path: "/v1/hits",
		contentType: "application/x-ndjson", contentEncoding: string(c.opts.Compression),
		idempotencyKey: idempotencyKey, replayed: &again,
	}
	if c.opts.Durable {
		r.query = url.Values{"durable": {"true"}}
	}
	if r.body, err = c.compress(body); err != nil {
		return answer, false, err
	}
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

// unsentError is that of a request of which nothing left: no connection could be made.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

// neverSent tells whether err of a request came before any of it left.
func neverSent(err error) bool {
	var unsent unsentError
	return errors.As(err, &unsent)
}

// sending is whether a request may have left.
type sending struct {
	maybe  atomic.Bool
	traced bool
}

// watch notes whether the request of a context gets a connection: one that waits in vain for a node
// which takes none ends like one whose answer got lost.
func (c *Client) watch(ctx context.Context) (context.Context, *sending) {
	s := &sending{traced: c.traced}
	if !c.traced {
		s.maybe.Store(true)
		return ctx, s
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { s.maybe.Store(true) },
	}), s
}

// judge marks the error of a request that never left. That a connection could not be made says so only of
// a transport that is not watched, and that was not let repeat the request (once): it may be the second one.
func (s *sending) judge(err error) error {
	var op *net.OpError
	if !s.maybe.Load() || !s.traced && errors.As(err, &op) && op.Op == "dial" {
		return unsentError{err}
	}
	return err
}

// mayHaveCounted tells whether the request of hits that err ended may have counted: it left, and
// no Weir server said that it counted nothing.
func mayHaveCounted(err error) bool {
	var refused *Error
	if errors.As(err, &refused) {
		return !refused.tookNothing()
	}
	return err != nil && !neverSent(err)
}
