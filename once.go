package weir

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
)

const (
	// OnceSeconds is how long a receipt is kept: a repeat within that time
	// counts nothing.
	OnceSeconds = 600

	// MaxOnceKeyBytes is the longest idempotency key, in bytes.
	MaxOnceKeyBytes = 255

	maxReceipts     = 100_000
	maxReceiptBytes = 64 << 20 // of keys and answers
)

// receipts are the answers to requests that may come again.
type receipts struct {
	// gate keeps cuts out while a request is applied: its hits and its receipt
	// are in one cut, or a crash between two would count half of them twice.
	gate sync.RWMutex

	mu     sync.Mutex // guards all below
	byKey  map[string]*receipt
	order  []*receipt // by age, the oldest first
	newest int64      // the latest second of all that came
	bytes  int
	fresh  [][]byte // encoded, since the last cut
}

// receipt is one answered request, or one that is being applied.
type receipt struct {
	key         string
	fingerprint uint64
	at          int64         // Unix second when it began, by the wall clock
	done        chan struct{} // closed when answer is there; nil: it is
	answer      []byte
}

// Once applies a request that may be sent again under the same key, 1 to
// MaxOnceKeyBytes long, and returns its answer. Within OnceSeconds a repeat with
// the same fingerprint of its content applies nothing and gets the first answer,
// also across a restart if a journal runs; with another fingerprint it is
// refused with CodeKeyReused. A repeat that comes while the first is being
// applied waits for it.
//
// apply must not wait for anybody else: cuts wait for it. A nil answer is not
// remembered: the request counted nothing and may be sent again.
func (e *Engine) Once(ctx context.Context, key string, fingerprint uint64, apply func() []byte) (answer []byte, repeated bool, err error) {
	if len(key) < 1 || len(key) > MaxOnceKeyBytes {
		return nil, false, &Error{CodeInvalidKey, "idempotency key", fmt.Sprintf("idempotency key of %d bytes: must have 1 to %d", len(key), MaxOnceKeyBytes)}
	}
	for {
		r, first, err := e.receipts.enter(key, fingerprint, e.clock.wall.second())
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
	defer func() { e.receipts.leave(r, answer, e.cfg.Gather) }() // after a panic too
	return apply()
}

// enter finds the receipt of a key, or makes one and says that the caller is the
// first.
func (rs *receipts) enter(key string, fingerprint uint64, now int64) (r *receipt, first bool, err error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.expire(now)
	if have := rs.byKey[key]; have != nil {
		if have.fingerprint != fingerprint {
			return nil, false, &Error{CodeKeyReused, "idempotency key", "this idempotency key came with another content before: use a new key for each request"}
		}
		seen := *have // answer and done are read without the lock
		return &seen, false, nil
	}
	if len(rs.order) >= maxReceipts || rs.bytes > maxReceiptBytes {
		return nil, false, &Error{CodeOverloaded, "idempotency key", "too many idempotency keys within ten minutes: retry later"}
	}
	r = &receipt{key: key, fingerprint: fingerprint, at: now, done: make(chan struct{})}
	rs.put(r)
	return r, true, nil
}

func (rs *receipts) put(r *receipt) {
	if rs.byKey == nil {
		rs.byKey = map[string]*receipt{}
	}
	rs.byKey[r.key] = r
	rs.order = append(rs.order, r)
	rs.newest = max(rs.newest, r.at)
	rs.bytes += len(r.key) + len(r.answer)
}

// leave ends a request: its receipt is kept, or forgotten if there is no answer.
func (rs *receipts) leave(r *receipt, answer []byte, gather bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	close(r.done)
	r.done = nil
	if answer == nil {
		rs.drop(r)
		i := slices.Index(rs.order, r) // near the end
		rs.order = slices.Delete(rs.order, i, i+1)
		return
	}
	r.answer = answer
	rs.bytes += len(answer)
	if gather {
		rs.fresh = append(rs.fresh, r.encode())
	}
}

func (rs *receipts) expire(now int64) {
	if rs.newest > now { // the clock has run back: what came before it did came now at the latest
		for _, r := range rs.order {
			r.at = min(r.at, now)
		}
		rs.newest = now
	}
	for len(rs.order) > 0 && rs.order[0].at <= now-OnceSeconds && rs.order[0].done == nil {
		rs.drop(rs.order[0])
		rs.order = rs.order[1:]
	}
}

func (rs *receipts) drop(r *receipt) {
	if rs.byKey[r.key] == r {
		delete(rs.byKey, r.key)
		rs.bytes -= len(r.key) + len(r.answer)
	}
}

// CutReceipts runs cut, which calls Cut for the partitions, while no request of
// Once is being applied, and returns the receipts since the call before: those
// of requests whose hits are in these cuts or earlier ones.
func (e *Engine) CutReceipts(cut func()) [][]byte {
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
func (e *Engine) Receipts() (all [][]byte) {
	e.receipts.mu.Lock()
	defer e.receipts.mu.Unlock()
	e.receipts.expire(e.clock.wall.second())
	for _, r := range e.receipts.order {
		if r.done == nil && e.receipts.byKey[r.key] == r {
			all = append(all, r.encode())
		}
	}
	return all
}

// LoadReceipts takes receipts back from a journal or a snapshot. Those that are
// too old or known are left out; one that can't be read is an error.
func (e *Engine) LoadReceipts(encoded [][]byte) error {
	e.receipts.mu.Lock()
	defer e.receipts.mu.Unlock()
	for _, b := range encoded {
		r, err := decodeReceipt(b)
		if err != nil {
			return err
		}
		now := e.clock.wall.second()
		if r.at = min(r.at, now); r.at > now-OnceSeconds && e.receipts.byKey[r.key] == nil {
			e.receipts.put(r)
		}
	}
	return nil
}

// encode writes fingerprint, second, length of the key, key, answer; numbers as
// unsigned varints.
func (r *receipt) encode() []byte {
	b := binary.AppendUvarint(nil, r.fingerprint)
	b = binary.AppendUvarint(b, uint64(r.at))
	b = binary.AppendUvarint(b, uint64(len(r.key)))
	b = append(b, r.key...)
	return append(b, r.answer...)
}

func decodeReceipt(b []byte) (*receipt, error) {
	r := stateReader{rest: b}
	fingerprint, at, key := r.uvarint(), r.uvarint(), r.bytes()
	if r.failed || len(key) < 1 || len(key) > MaxOnceKeyBytes {
		return nil, fmt.Errorf("receipt of a request: its content is not one")
	}
	return &receipt{key: string(key), fingerprint: fingerprint, at: int64(at), answer: append([]byte{}, r.rest...)}, nil
}
