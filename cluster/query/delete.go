package query

import (
	"context"
	"encoding/binary"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/internal/wire"
)

// deletion is a kind: a key's hits until now go.
type deletion struct {
	key   string
	until int64 // Unix ms; nobody waits for it after that
}

// deleted is its result: the key was there.
type deleted bool

// Delete deletes as weir.Engine.Delete does, at one holder, which journals it for the
// others: these give the old count until its flush. All hits that this node took
// before go with it. When a holder did not answer in time and the next one is asked,
// false may mean that the first one has deleted it.
func (r *Router) Delete(ctx context.Context, key string) (bool, error) {
	was, err := r.engine.Delete(key)
	switch {
	case err == nil:
		r.single.forget(key)
		return was, nil
	case asError(err).Code != weir.CodeNotHeld:
		return false, err
	}
	if err := r.flush(ctx); err != nil {
		return false, err
	}
	f, err := r.single.alone(question{kind: &deletion{key: key}})
	if err != nil {
		return false, err
	}
	r.begin([]*flight{f})
	if err := f.wait(ctx); err != nil {
		return false, err
	}
	return bool(f.answer.result.(deleted)), nil
}

// flush has the own hits before a deletion in the journal.
func (r *Router) flush(ctx context.Context) error {
	if r.cfg.Flush == nil {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, r.deadline(quick))
	defer cancel()
	err := r.cfg.Flush(within)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return &weir.Error{Code: weir.CodeOverloaded, Field: "key",
		Message: "the key was not deleted: hits that are on their way to its holder could not be journaled before: " + err.Error() + "; retry in a second"}
}

func (*deletion) number() byte    { return 5 }
func (*deletion) class() class    { return quick }
func (q *deletion) keyed() string { return q.key }
func (*deletion) wide() bool      { return false }
func (*deletion) counts() bool    { return false }
func (*deletion) exact() bool     { return true }

func (q *deletion) expires(unixMilli int64)      { q.until = unixMilli }
func (q *deletion) expired(unixMilli int64) bool { return unixMilli > q.until }

// delete: key, until (signed Unix ms).
func (q *deletion) append(b []byte) []byte {
	return binary.AppendVarint(wire.AppendText(b, q.key), q.until)
}

func readDeletion(r *wire.Reader) kind {
	return &deletion{r.Text(weir.MaxKeyBytes), r.Varint()}
}

func (q *deletion) answer(e *weir.Engine, _ replication.PartitionSet) (result, error) {
	was, err := e.Delete(q.key)
	return deleted(was), err
}

func (*deletion) read(r *wire.Reader) result { return deleted(r.Bool()) }

// 1 if the key was there.
func (d deleted) append(b []byte) []byte { return wire.AppendBool(b, bool(d)) }

func (d deleted) merge(_ kind, more result) result { return d || more.(deleted) }

func (deleted) memory() int { return 0 }
