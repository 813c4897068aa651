package query

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/replication"
)

// pause is between two rounds in which nobody answered: partitions may be on their
// way from one node to another.
const pause = 25 * time.Millisecond

// retryHolders asks the holders of single keys, round after round, until each flight
// has its answer or ctx ends. All flights are of one class; those to one node go together.
func (r *Router) retryHolders(ctx context.Context, flights []*flight) {
	var asking sync.WaitGroup
	defer asking.Wait()
	for len(flights) > 0 {
		to, stuck := r.nextOf(flights)
		for node, group := range to {
			asking.Go(func() { r.retryHolders(ctx, r.askGroup(ctx, node, group)) })
		}
		flights = r.stuck(ctx, stuck)
	}
}

// nextOf finds whom to ask next. What came to be held here meanwhile is answered.
func (r *Router) nextOf(flights []*flight) (to map[string][]*flight, stuck []*flight) {
	to = map[string][]*flight{}
	for _, f := range flights {
		if r.answersItself(f) {
			continue
		}
		if node, ok := r.next(f); ok {
			f.asked, f.empty = append(f.asked, node), false
			to[node] = append(to[node], f)
		} else {
			stuck = append(stuck, f)
		}
	}
	return to, stuck
}

func (r *Router) answersItself(f *flight) bool {
	if !replication.Of(r.engine).Holds(replication.Of(r.engine).PartitionOf(f.q.keyed())) {
		return false
	}
	fresh := r.own()
	a := answerOf(r.engine, &f.q)
	if a.notHeld() {
		return false // it was let go just now
	}
	r.finish(f, a, fresh)
	return true
}

// next is the best holder that was not asked in this round, one whose circuit breaker is open only if
// there is no other.
func (r *Router) next(f *flight) (string, bool) {
	broken := ""
	for _, node := range r.cfg.Holders(replication.Of(r.engine).PartitionOf(f.q.keyed())) {
		switch {
		case node == r.cfg.Self || slices.Contains(f.asked, node):
		case !r.peers.breakerOpen(node, f.q.class()):
			return node, true
		case broken == "":
			broken = node
		}
	}
	return broken, broken != ""
}

// askGroup puts flights to one node, and returns those that it did not answer.
func (r *Router) askGroup(ctx context.Context, node string, group []*flight) (left []*flight) {
	questions := make([]*question, len(group))
	for i, f := range group {
		if c, ok := f.q.kind.(change); ok {
			c.expires(r.until(ctx).UnixMilli())
		}
		questions[i] = &f.q
	}
	each, ok := r.askNode(ctx, node, group[0].q.class(), questions)
	for i, f := range group {
		switch {
		case !ok:
			f.trail.out(node)
		case each[i].err != nil:
			f.trail.add(node, each[i].err)
		case each[i].answer.elsewhere():
			f.trail.add(node, each[i].answer.err)
		default:
			r.finish(f, each[i].answer, each[i].fresh)
			continue
		}
		left = append(left, f)
	}
	if ok {
		return left
	}
	r.giveUp(left)
	return nil
}

// until is when a change that is sent now is no longer waited for.
func (r *Router) until(ctx context.Context) time.Time {
	until := time.Now().Add(r.attempt(quick))
	if end, ok := ctx.Deadline(); ok && end.Before(until) {
		return end
	}
	return until
}

// elsewhere tells whether another node should be asked.
func (a *answer) elsewhere() bool {
	return a.notHeld() || a.err != nil && (a.err.Code == weir.CodeClosed || a.err.Code == weir.CodeNotFresh)
}

// stuck waits a moment for flights that all holders failed, and begins their next
// round. Where there was no holder twice, or ctx ended, they are given up.
func (r *Router) stuck(ctx context.Context, flights []*flight) (again []*flight) {
	if len(flights) == 0 {
		return nil
	}
	var over []*flight
	for _, f := range flights {
		nobody := len(f.asked) == 0
		if nobody && f.empty {
			over = append(over, f)
			continue
		}
		f.asked, f.empty = nil, nobody
		again = append(again, f)
	}
	r.giveUp(over)
	if len(again) > 0 && !sleep(ctx, pause) {
		r.giveUp(again)
		return nil
	}
	return again
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// giveUp ends flights that nobody answers.
func (r *Router) giveUp(flights []*flight) {
	for _, f := range flights {
		r.abandon(f, f.trail.failed(replication.Of(r.engine).PartitionOf(f.q.keyed())))
	}
}

func (r *Router) abandon(f *flight, err *weir.Error) {
	if r.ctx.Err() != nil {
		err = errClosed
	}
	r.stats.unanswered.Add(1)
	f.err = err
	r.end(f)
}

// finish gives a flight its answer, which may be an error of an engine.
func (r *Router) finish(f *flight, a answer, fresh Fresh) {
	f.answer, f.fresh = a, fresh
	if a.err != nil {
		f.err = a.err
	}
	r.end(f)
}

func (r *Router) end(f *flight) {
	if c, ok := f.q.kind.(change); ok { // also one that may have been done without our knowing
		r.single.forget(c.keyed())
	}
	r.single.finish(f)
}
