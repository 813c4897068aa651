package weir

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/weir-counter/weir/internal/wire"
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
	for {
		r, first, err := e.receipts.enter(client, key, fingerprint, e.limits.clock.second())
		switch {
		case err != nil:
			return nil, false, err
		case first:
			return e.applyOnce(r, apply), false, nil
		case r.done == nil:
			return r.answer, true, nil
		}
		select { // then look again: the first may have counted nothing
		case <-r.done:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
}

func (e *Engine) applyOnce(r *receipt, apply func() []byte) (answer []byte) {
	e.receipts.gate.RLock()
	defer e.receipts.gate.RUnlock()
	defer func() { e.receipts.leave(r, answer, e.cfg.Gather, e.limits.clock.aheadSeconds()) }() // after a panic too
	return apply()
}

// CutReceipts runs cut, which calls Cut for the partitions, while no request of
// Once is being applied, and returns the receipts since the call before: those
// of requests whose hits are in these cuts or earlier ones.
func (r *Replication) CutReceipts(cut func()) [][]byte {
	e := r.engine
	e.receipts.gate.Lock()
	defer e.receipts.gate.Unlock()
	cut()
	e.receipts.mu.Lock()
	defer e.receipts.mu.Unlock()
	fresh := e.receipts.fresh
	e.receipts.fresh = nil
	return fresh
}

// Receipts returns all receipts, for a snapshot.
func (r *Replication) Receipts() (all [][]byte) {
	e := r.engine
	e.receipts.mu.Lock()
	defer e.receipts.mu.Unlock()
	e.receipts.expire(e.limits.clock.second())
	ahead := e.limits.clock.aheadSeconds()
	for _, list := range [][]*receipt{e.receipts.others.list, e.receipts.own.list} {
		for _, r := range list {
			if r.done == nil {
				all = append(all, r.encode(ahead))
			}
		}
	}
	return all
}

// LoadReceipts takes receipts back from a journal or a snapshot. Those that are
// too old or known are left out, and the oldest when they are more than twice
// Config.OnceMemory; one that can't be read is an error.
func (r *Replication) LoadReceipts(encoded [][]byte) error {
	return r.engine.takeReceipts(encoded, false)
}

// FollowReceipts is LoadReceipts for those that another node gave a moment ago: they are
// as of now, whatever its clock says.
func (r *Replication) FollowReceipts(encoded [][]byte) error {
	return r.engine.takeReceipts(encoded, true)
}

func (e *Engine) takeReceipts(encoded [][]byte, fresh bool) error {
	e.receipts.mu.Lock()
	defer e.receipts.mu.Unlock()
	for _, b := range encoded {
		r, err := decodeReceipt(b)
		if err != nil {
			return err
		}
		now := e.limits.clock.second()
		if r.at -= e.limits.clock.aheadSeconds(); fresh {
			r.at = now
		}
		if r.at = min(r.at, now); r.at > now-OnceSeconds && e.receipts.byKey[r.key] == nil {
			e.receipts.put(r)
		}
	}
	return nil
}

// encode writes fingerprint, second, length of the key, key, answer; numbers as
// unsigned varints.
func (r *receipt) encode(ahead int64) []byte {
	b := binary.AppendUvarint(nil, r.fingerprint)
	b = binary.AppendUvarint(b, uint64(max(r.at+ahead, 0)))
	b = wire.AppendText(b, r.key)
	return append(b, r.answer...)
}

func decodeReceipt(b []byte) (*receipt, error) {
	r := wire.NewReader(b)
	fingerprint, at, key := r.Uvarint(), r.Uvarint(), r.Block()
	if r.Failed() || len(key) < 1 || len(key) > MaxOnceKeyBytes {
		return nil, fmt.Errorf("receipt of a request: its content is not one")
	}
	return &receipt{key: string(key), fingerprint: fingerprint, at: int64(at), answer: append([]byte{}, r.Rest()...)}, nil
}
