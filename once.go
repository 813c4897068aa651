package weir

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-counter/weir/internal/receipts"
)

const (
	// OnceSeconds is how long a receipt is kept: a repeat within that time
	// counts nothing.
	OnceSeconds = 600

	// MaxOnceKeyBytes is the longest idempotency key, in bytes.
	MaxOnceKeyBytes = 255
)

// Once applies a request that may be sent again under the same key, 1 to
// MaxOnceKeyBytes long, and returns its answer. Within OnceSeconds a repeat with
// the same fingerprint of its content applies nothing and gets the first answer,
// also across a restart if a journal runs; with another fingerprint it is
// refused with CodeKeyReused. A repeat that comes while the first is being
// applied waits for it.
//
// apply must not wait for anybody else: cuts wait for it. A nil answer is not
// remembered: the request counted nothing and may be sent again.
//
// When Config.OnceMemory is full, a new key is refused with CodeOnceFull, and nothing is
// applied.
func (e *Engine) Once(ctx context.Context, key string, fingerprint uint64, apply func() []byte) (answer []byte, repeated bool, err error) {
	return e.OnceFrom(ctx, "", key, fingerprint, apply)
}

// OnceFrom is Once for one of many clients, of any name: each may take three quarters of
// Config.OnceMemory at most.
func (e *Engine) OnceFrom(ctx context.Context, client, key string, fingerprint uint64, apply func() []byte) (answer []byte, repeated bool, err error) {
	if len(key) < 1 || len(key) > MaxOnceKeyBytes {
		return nil, false, &Error{CodeInvalidKey, "idempotency key", fmt.Sprintf("idempotency key of %d bytes: must have 1 to %d", len(key), MaxOnceKeyBytes)}
	}
	answer, repeated, err = e.receipts.Once(ctx, client, key, fingerprint, apply)
	return answer, repeated, onceError(err)
}

func onceError(err error) error {
	if errors.Is(err, receipts.ErrReused) {
		return &Error{CodeKeyReused, "idempotency key", "this idempotency key came with another content before: use a new key for each request"}
	}
	if full, ok := errors.AsType[*receipts.FullError](err); ok {
		who := "all clients"
		if full.OneClient {
			who = "this client address"
		}
		return &Error{CodeOnceFull, "idempotency key", fmt.Sprintf("the idempotency keys of %s in the last ten minutes take %d MiB here, and more are not remembered: nothing was counted; send larger batches, use other nodes too, or raise OnceMemory (weir serve --idempotency-memory)", who, full.Bytes>>20)}
	}
	return err
}

func (r *side) CutReceipts(cut func()) [][]byte { return r.engine.receipts.Cut(cut) }

func (r *side) Receipts() (all [][]byte) { return r.engine.receipts.All() }

func (r *side) LoadReceipts(encoded [][]byte) error { return r.LoadReceiptsSince(encoded, 0) }

func (r *side) LoadReceiptsSince(encoded [][]byte, set time.Duration) error {
	return r.engine.receipts.Load(encoded, false, set)
}

func (r *side) FollowReceipts(encoded [][]byte) error {
	return r.engine.receipts.Load(encoded, true, 0)
}
