package receipts

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/weir-counter/weir/internal/clock"
	"github.com/weir-counter/weir/internal/wire"
)

// MaxKeyBytes is the longest key, in bytes.
const MaxKeyBytes = 255

// New returns an empty Table. budget is for own receipts, in bytes; those of others have
// twice as much beside it. With gather, new ones are kept for Cut.
func New(budget int64, gather bool, clock *clock.Limits) *Table {
	return &Table{budget: budget, gather: gather, clock: clock}
}

// Once applies a request of a client, unless its key is known, and returns its answer. A
// repeat that comes while the first is being applied waits for it. A nil answer is not
// remembered. The error is ErrReused, a *FullError, or that of ctx.
func (t *Table) Once(ctx context.Context, client, key string, fingerprint uint64, apply func() []byte) (answer []byte, repeated bool, err error) {
	for {
		r, first, err := t.enter(client, key, fingerprint)
		switch {
		case err != nil:
			return nil, false, err
		case first:
			return t.apply(r, apply), false, nil
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

func (t *Table) apply(r *receipt, apply func() []byte) (answer []byte) {
	t.gate.RLock()
	defer t.gate.RUnlock()
	defer func() { t.leave(r, answer) }() // after a panic too
	return apply()
}

// Cut runs cut while no request is being applied, and returns the receipts since the call
// before.
func (t *Table) Cut(cut func()) [][]byte {
	t.gate.Lock()
	defer t.gate.Unlock()
	cut()
	t.mu.Lock()
	defer t.mu.Unlock()
	fresh := t.fresh
	t.fresh = nil
	return fresh
}

// All returns all receipts, for a snapshot.
func (t *Table) All() (all [][]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(t.clock.Second())
	ahead := t.clock.AheadSeconds()
	for _, list := range [][]*receipt{t.others.list, t.own.list} {
		for _, r := range list {
			if r.done == nil {
				all = append(all, r.encode(ahead))
			}
		}
	}
	return all
}

// Load takes receipts back from a journal or a snapshot, of a time of day that was set by set
// since. With fresh they are as of now, whatever they say. Those that are too old or known are
// left out; one that can't be read is an error.
func (t *Table) Load(encoded [][]byte, fresh bool, set time.Duration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range encoded {
		r, err := decode(b)
		if err != nil {
			return err
		}
		now := t.clock.Second()
		if r.at += int64(set/time.Second) - t.clock.AheadSeconds(); fresh {
			r.at = now
		}
		if r.at = min(r.at, now); r.at > now-Seconds && t.byKey[r.key] == nil {
			t.put(r)
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

func decode(b []byte) (*receipt, error) {
	r := wire.NewReader(b)
	fingerprint, at, key := r.Uvarint(), r.Uvarint(), r.Block()
	if r.Failed() || len(key) < 1 || len(key) > MaxKeyBytes {
		return nil, errors.New("receipt of a request: its content is not one")
	}
	return &receipt{key: string(key), fingerprint: fingerprint, at: int64(at), answer: append([]byte{}, r.Rest()...)}, nil
}
