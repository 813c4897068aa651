package query

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/cluster/limits"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/engine/side"
	"github.com/weir-counter/weir/internal/wire"
)

// decided is a kind: checks of limits, of keys in one partition.
type decided struct {
	key    string // the first of its checks; not sent
	checks limits.Question
}

// verdict is its result.
type verdict limits.Answer

// maxDeciding is how many decisions may be under way: some 40 MiB with limits and keys of
// the usual length. They have no part in maxAsking: who asks for many counts must not make
// limits loose.
const maxDeciding = 64 << 10

// Holds tells whether this node holds a key, and so decides itself. Cost: a load where
// the engine holds all keys.
func (r *Router) Holds(key string) bool { return replication.Of(r.engine).HoldsKey(key) }

// Group is the partition of a key.
func (r *Router) Group(key string) int { return replication.Of(r.engine).PartitionOf(key) }

// Decide is of admit.Shared: weir.Engine.TakeAll, or PeekAll if take is false, at a node that holds the
// keys of all checks, which are of one group. The error is a *weir.Error of the holder's
// engine. It is not answered if no holder did within Config.DecideWithin, or too many wait:
// then something may have been taken, at one holder at most.
//
// Nothing of it is shared with equal questions or kept. Those to one node leave together,
// and wait for no others.
func (r *Router) Decide(asked []weir.Check, verdicts []weir.Verdict, take bool) (allowed, answered bool, err error) {
	r.stats.decisions.Add(1)
	a, ok := r.decide(decided{asked[0].Key, limits.Ask(asked, take)})
	switch {
	case !ok:
		r.stats.undecided.Add(1)
		return false, false, nil
	case a.err != nil:
		return false, true, a.err
	}
	said := a.result.(verdict)
	copy(verdicts, said.Verdicts)
	return said.Allowed, true, nil
}

// changeTime is for how long a change is asked for that is not answered. Then it is not known whether it was made.
const changeTime = 3 * time.Second

// Change is of admit.Shared: it makes a change at one node that holds the key, once. The error is a
// *weir.Error of its engine.
func (r *Router) Change(c side.Change, of weir.Check) (made side.Changed, answered bool, err error) {
	a, ok := r.decide(decided{of.Key, limits.AskChange(c, of)})
	switch {
	case !ok:
		return made, false, nil
	case a.err != nil:
		return made, true, a.err
	}
	return limits.Answer(a.result.(verdict)).Made(), true, nil
}

// decide asks one holder after the other, until one has decided, or may have: that is asked again for a change, which
// it makes once. Those that did not answer a moment ago are not asked: each request would wait for them.
func (r *Router) decide(d decided) (answer, bool) {
	defer r.deciding.Add(-1)
	if r.deciding.Add(1) > maxDeciding {
		return answer{}, false
	}
	ctx, cancel := context.WithTimeout(r.ctx, d.within(r.deadline(decision)))
	defer cancel()
	q := &question{kind: d}
	for _, node := range r.deciders(replication.Of(r.engine).PartitionOf(d.key)) {
		if node == r.cfg.Self || r.peers.breakerOpen(node, decision) {
			continue
		}
		each, ok := r.askNode(ctx, node, decision, []*question{q})
		if !ok {
			return answer{}, false
		}
		switch one := each[0]; {
		case one.err == nil && !one.answer.elsewhere():
			return one.answer, true
		case one.mayBeDone() && d.isChange():
			return r.askAgain(ctx, node, q)
		case one.mayBeDone() && d.checks.Takes():
			return answer{}, false
		}
	}
	a := answerOf(r.engine, q) // it may have come here meanwhile
	return a, !a.notHeld()
}

// askAgain asks a node for a change that it may have made. No other is asked: that would not know of it yet.
func (r *Router) askAgain(ctx context.Context, node string, q *question) (answer, bool) {
	for sleep(ctx, pause) {
		each, ok := r.askNode(ctx, node, decision, []*question{q})
		if ok && each[0].err == nil {
			return each[0].answer, !each[0].answer.elsewhere()
		}
	}
	return answer{}, false
}

func (q decided) isChange() bool { return q.checks.Change.Kind != side.NoChange }

// within is how long it may take, if a decision may take so long.
func (q decided) within(decision time.Duration) time.Duration {
	if q.isChange() {
		return max(decision, changeTime)
	}
	return decision
}

// deciders are the holders of a partition. All nodes ask the same one first, as far as
// they know of the same holders: so it knows what was admitted at the others.
func (r *Router) deciders(partition int) []string {
	nodes := slices.Sorted(slices.Values(r.cfg.Holders(partition)))
	if len(nodes) < 2 {
		return nodes
	}
	at := partition % len(nodes)
	return slices.Concat(nodes[at:], nodes[:at])
}

// mayBeDone tells whether the node may have done what it was asked, though there is no
// answer.
func (a *pending) mayBeDone() bool {
	var refused errRefused
	return a.err != nil && a.sent && !errors.Is(a.err, errNoSubscriber) && !errors.As(a.err, &refused)
}

func (decided) number() byte    { return 7 }
func (decided) class() class    { return decision }
func (q decided) keyed() string { return q.key }
func (decided) wide() bool      { return false }
func (decided) counts() bool    { return false }
func (decided) exact() bool     { return true }

func (q decided) append(b []byte) []byte { return q.checks.Append(b) }

func readDecision(r *wire.Reader) kind { return decided{checks: limits.ReadQuestion(r)} }

// answer decides about keys that the engine holds.
func (q decided) answer(e *weir.Engine, _ replication.PartitionSet) (result, error) {
	for _, c := range q.checks.Checks {
		if !replication.Of(e).HoldsKey(c.Key) {
			return nil, errMoved
		}
	}
	a, err := q.checks.Decide(e)
	return verdict(a), err
}

func (q decided) read(r *wire.Reader) result {
	return verdict(limits.ReadAnswer(r, len(q.checks.Checks)))
}

func (v verdict) append(b []byte) []byte { return limits.Answer(v).Append(b) }

// merge is never asked for: one node decides all of a question.
func (v verdict) merge(kind, result) result { return v }

func (verdict) memory() int { return 0 }

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
func (t trail) failed(partition int) *weir.Error {
	what := fmt.Sprintf("partition %d is held by other nodes, and none of them answered", partition)
	if len(t) == 0 {
		return &weir.Error{Code: weir.CodeNotHeld, Field: "key", Message: fmt.Sprintf("no node that is up holds partition %d: retry in a second", partition)}
	}
	asked, code, field := make([]string, len(t)), weir.CodeNotHeld, "key"
	for i, s := range t {
		asked[i] = s.node + " (" + s.why.Error() + ")"
		if of, ok := errors.AsType[*weir.Error](s.why); ok && of.Code == weir.CodeNotFresh { // it answers, and is behind
			code, field = of.Code, "fresh"
		}
	}
	return &weir.Error{Code: code, Field: field, Message: what + ": asked " + strings.Join(asked, ", ") + "; retry in a second"}
}
