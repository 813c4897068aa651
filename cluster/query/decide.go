package query

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/cluster/checks"
	"github.com/weir-counter/weir/internal/limits"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/internal/wire"
)

// decided is a kind: checks of limits, of keys in one partition.
type decided struct {
	key    string // the first of its checks; not sent
	checks checks.Question
}

// verdict is its result.
type verdict checks.Answer

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
	a, ok := r.decide(decided{asked[0].Key, checks.Ask(asked, take)})
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
func (r *Router) Change(c limits.Change, of weir.Check) (made limits.Changed, answered bool, err error) {
	a, ok := r.decide(decided{of.Key, checks.AskChange(c, of)})
	switch {
	case !ok:
		return made, false, nil
	case a.err != nil:
		return made, true, a.err
	}
	return checks.Answer(a.result.(verdict)).Made(), true, nil
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

func (q decided) isChange() bool { return q.checks.Change.Kind != limits.NoChange }

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

func readDecision(r *wire.Reader) kind { return decided{checks: checks.Read(r)} }

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
	return verdict(checks.ReadAnswer(r, len(q.checks.Checks)))
}

func (v verdict) append(b []byte) []byte { return checks.Answer(v).Append(b) }

// merge is never asked for: one node decides all of a question.
func (v verdict) merge(kind, result) result { return v }

func (verdict) memory() int { return 0 }
