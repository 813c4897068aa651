package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"

	"github.com/cespare/xxhash/v2"

	"github.com/weir-counter/weir/api"
)

// maxReceiptBytes bounds an answer that is kept for repeats, in bytes of JSON.
const maxReceiptBytes = 8 << 10

// Once counts a request of hits under an idempotency key: count does, and returns what
// Verdict did. A request that comes again within ten minutes counts nothing: t is then as the first
// one left it, the error is that of the first one, and repeated is true. fingerprint tells requests
// under the same key apart: see Fingerprint. A request of which nothing was counted is not
// remembered. The journal waits while count runs, so that it must not wait for anybody: a
// door reads the request as a whole before.
func (s *Service) Once(ctx context.Context, client Caller, key string, fingerprint uint64, t *Tally, count func() error) (repeated bool, err error) {
	stored, repeated, failure := s.engine.OnceFrom(ctx, client.String(), ownKey(client, key), fingerprint, func() []byte {
		if err = count(); t.Counted == 0 {
			return nil // so that it may be sent again
		}
		return t.receipt(err)
	})
	switch {
	case failure != nil:
		return false, AsError(failure)
	case repeated:
		s.requests.replayed.Add(1)
		return true, s.recall(t, stored)
	}
	return false, err
}

// ownKey is an idempotency key of one identity, so that no other can ask what became of its
// requests. It is of the same length whatever the name.
func ownKey(c Caller, key string) string {
	if !c.Known() {
		return key
	}
	own := sha256.Sum256([]byte(c.Name() + "\x00" + key))
	return hex.EncodeToString(own[:])
}

// Fingerprint tells requests under the same idempotency key apart, by their content and
// the kind that it is written in. It is kept on disk: the same request must have the same
// one in every build.
func Fingerprint(kind byte, content []byte) uint64 {
	d := xxhash.New()
	_, _ = d.Write([]byte{kind}) // a hash takes everything
	_, _ = d.Write(content)
	return d.Sum64()
}

// receipt is what is kept of a request: its answer and, if it failed, why. It is JSON, which
// is on disk for ten minutes.
type receipt struct {
	*api.HitsAnswer
	Code   api.Code `json:"code,omitempty"`
	Field  string   `json:"field,omitempty"`
	Detail string   `json:"detail,omitempty"`
}

// receipt is t and why its request failed, nil if it did not. So that it is small, fewer
// of the rejected lines are listed if they are long ones, in the first answer too.
func (t *Tally) receipt(failure error) []byte {
	r := receipt{HitsAnswer: &t.HitsAnswer}
	var e *Error
	if errors.As(failure, &e) {
		r.Code, r.Field, r.Detail = e.Code, e.Field, e.Message
	}
	for {
		b, err := json.Marshal(r)
		if err != nil {
			panic(err) // strings and numbers only
		}
		if len(b) <= maxReceiptBytes || len(t.Rejected) == 0 {
			return b
		}
		t.Rejected = t.Rejected[:len(t.Rejected)/2]
	}
}

// recall is the inverse of receipt.
func (s *Service) recall(t *Tally, stored []byte) error {
	r := receipt{HitsAnswer: &t.HitsAnswer}
	if err := json.Unmarshal(stored, &r); err != nil {
		s.log.Error("could not read the stored answer of an idempotent request", "error", err)
		return AsError(err)
	}
	if r.Code == "" {
		return nil
	}
	return &Error{Code: r.Code, Field: r.Field, Message: r.Detail, Hits: &t.HitsAnswer}
}
