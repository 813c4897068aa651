package query

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/wire"
)

// deletion is a kind: a key's hits until now go.
type deletion struct {
	key   string
	until int64 // Unix ms; nobody waits for it after that
}

// deleted is its result: the key was there.
type deleted bool

// Delete deletes as engine.Engine.Delete does, at one holder, which journals it for the
// others: these give the old count until its flush. All hits that this node took
// before go with it. When a holder did not answer in time and the next one is asked,
// false may mean that the first one has deleted it.
func (r *Router) Delete(ctx context.Context, key string) (bool, error) {
	was, err := r.engine.Delete(key)
	switch {
	case err == nil:
		r.single.forget(key)
		return was, nil
	case asError(err).Code != engine.CodeNotHeld:
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
	return &engine.Error{Code: engine.CodeOverloaded, Field: "key",
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
	return &deletion{r.Text(engine.MaxKeyBytes), r.Varint()}
}

func (q *deletion) answer(e *engine.Engine, _ replication.PartitionSet) (result, error) {
	was, err := e.Delete(q.key)
	return deleted(was), err
}

func (*deletion) read(r *wire.Reader) result { return deleted(r.Bool()) }

// 1 if the key was there.
func (d deleted) append(b []byte) []byte { return wire.AppendBool(b, bool(d)) }

func (d deleted) merge(_ kind, more result) result { return d || more.(deleted) }

func (deleted) memory() int { return 0 }

// trail is whom a question was put to, and why that was in vain: the last reason of
// each node.
type trail []step

type step struct {
	node string
	why  error
}

func (t *trail) add(node string, why error) {
	for i := range *t {
		if (*t)[i].node == node {
			(*t)[i].why = why
			return
		}
	}
	*t = append(*t, step{node, why})
}

// out notes that the time was over before a node answered, if nothing is known of it.
func (t *trail) out(node string) {
	for _, s := range *t {
		if s.node == node {
			return
		}
	}
	t.add(node, errSilent)
}

// failed is the error of a question that nobody answered.
func (t trail) failed(partition int) *engine.Error {
	what := fmt.Sprintf("partition %d is held by other nodes, and none of them answered", partition)
	if len(t) == 0 {
		return &engine.Error{Code: engine.CodeNotHeld, Field: "key", Message: fmt.Sprintf("no node that is up holds partition %d: retry in a second", partition)}
	}
	asked, code, field := make([]string, len(t)), engine.CodeNotHeld, "key"
	for i, s := range t {
		asked[i] = s.node + " (" + s.why.Error() + ")"
		if of, ok := errors.AsType[*engine.Error](s.why); ok && of.Code == engine.CodeNotFresh { // it answers, and is behind
			code, field = of.Code, "fresh"
		}
	}
	return &engine.Error{Code: code, Field: field, Message: what + ": asked " + strings.Join(asked, ", ") + "; retry in a second"}
}
