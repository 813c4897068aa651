package query

import (
	"context"
	"errors"
	"sync"

	"github.com/weir-counter/weir/internal/replication"
)

// scatter is a question about all keys, on its way.
type scatter struct {
	f    *flight
	rest replication.PartitionSet            // not answered yet
	of   map[string]replication.PartitionSet // what nodes may still be asked in this round: those that failed
	mu   sync.Mutex                          // while subqueries are asked, guards f's answer and trail, rest and of
}

// scatterGather puts a question to nodes that together hold all partitions, plans again for
// the sets of those that fail, and adds up what they say.
func (r *Router) scatterGather(ctx context.Context, f *flight) {
	c := &scatter{f: f, rest: all(r.partitions), of: map[string]replication.PartitionSet{}}
	for {
		subqueries, left := r.plan(c.rest, c.of)
		r.askSubqueries(ctx, c, subqueries)
		switch {
		case f.answer.err != nil, c.rest.Len() == 0:
			r.finish(f, f.answer, f.fresh)
			return
		case ctx.Err() != nil:
			r.abandon(f, f.trail.failed(first(c.rest)))
			return
		case left.Len() == 0:
			continue // other nodes may have what the failed ones had
		}
		// Some partitions have nobody left in this round.
		nobody := len(subqueries) == 0 && len(c.of) == 0
		if nobody && f.empty || !sleep(ctx, pause) {
			r.abandon(f, f.trail.failed(first(left)))
			return
		}
		f.empty = nobody
		clear(c.of)
	}
}

// askSubqueries asks the nodes of a plan at the same time.
func (r *Router) askSubqueries(ctx context.Context, c *scatter, subqueries []subquery) {
	var asking sync.WaitGroup
	for _, l := range subqueries {
		asking.Go(func() {
			q := c.f.q // subqueries differ in their sets
			q.in = l.in
			if l.node == "" {
				fresh := r.own()
				c.add(&q, "", answerOf(r.engine, &q), fresh, nil)
				return
			}
			each, ok := r.askNode(ctx, l.node, q.class(), []*question{&q})
			if !ok {
				c.out(l.node)
				return
			}
			c.add(&q, l.node, each[0].answer, each[0].fresh, each[0].err)
		})
	}
	asking.Wait()
}

// add takes what a node said about its set, or why it said nothing.
func (c *scatter) add(q *question, node string, a answer, fresh Fresh, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil && a.notHeld():
		if node != "" {
			c.f.trail.add(node, errNotAll)
			c.of[node] = a.held
		}
	case err == nil && a.elsewhere():
		err = a.err
	case err == nil && a.err != nil:
		c.f.answer.err = a.err
	case err == nil:
		c.rest = without(c.rest, q.in)
		c.f.fresh = c.f.fresh.with(fresh)
		if c.f.answer.result == nil {
			c.f.answer.result = a.result
		} else { // of partitions that have no key in common
			c.f.answer.result = c.f.answer.result.merge(q.kind, a.result)
		}
	}
	if err != nil {
		c.f.trail.add(node, err)
		c.of[node] = make(replication.PartitionSet, len(c.rest)) // of nothing
	}
}

// out notes that the time was over before a node answered.
func (c *scatter) out(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.f.trail.out(node)
}

var errNotAll = errors.New("it does not hold all of the partitions")
