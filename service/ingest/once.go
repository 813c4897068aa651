package ingest

import (
	"context"

	"github.com/cespare/xxhash/v2"
	"github.com/weir-counter/weir/service/caller"
	"github.com/weir-counter/weir/service/failure"
	"github.com/weir-counter/weir/service/tally"
)

// Once counts a request of hits under an idempotency key: count does, and returns what
// Verdict did. A request that comes again within ten minutes counts nothing: t is then as the first
// one left it, the error is that of the first one, and repeated is true. fingerprint tells requests
// under the same key apart: see Fingerprint. A request of which nothing was counted is not
// remembered. The journal waits while count runs, so that it must not wait for anybody: a
// door reads the request as a whole before.
func (s *Service) Once(ctx context.Context, client caller.Caller, key string, fingerprint uint64, t *tally.Tally, count func() error) (repeated bool, err error) {
	stored, repeated, refused := s.parts.Engine.OnceFrom(ctx, client.String(), client.Own(key), fingerprint, func() []byte {
		if err = count(); t.Counted == 0 {
			return nil // so that it may be sent again
		}
		return t.Receipt(err)
	})
	switch {
	case refused != nil:
		return false, failure.As(refused)
	case repeated:
		s.requests.replayed.Add(1)
		first, err := t.Recall(stored)
		if err != nil {
			s.parts.Log.Error("could not read the stored answer of an idempotent request", "error", err)
			return true, failure.As(err)
		}
		return true, first
	}
	return false, err
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
