package replica

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/engine"
)

// check is what must be true at the end.
func (c *simCluster) check() {
	c.failures = append(c.failures, c.model.faults...)
	c.checkSlots()
	truth := c.model.truth(c.nodes[0].partitionOf)
	now := truth.newest()
	keys := []string{engine.AllKeys}
	for key := range truth.hits {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	affected, disordered, doubtful := c.affected(), c.disordered(), c.doubtful()
	for _, n := range c.nodes {
		if !n.ready {
			c.failf("%s does not run", n.name)
			continue
		}
		if n.r.Next() != c.log.Last()+1 {
			c.failf("%s is at message %d of %d", n.name, n.r.Next()-1, c.log.Last())
		}
		named, all := n.findings()
		if len(all) > 0 && c.holes != simBeyond && len(c.spoiled) == 0 {
			c.failf("%s has findings: %s", n.name, strings.Join(all, "; "))
		}
		if len(n.ops) > 0 {
			c.failf("%s still has %d ops", n.name, len(n.ops))
		}
		now := now
		if c.holes == simBeyond && !n.e.Now().IsZero() { // the newest hit may be lost
			now = n.e.Now().Unix()
		}
		n.checkTotal(truth, now, doubtful[engine.AllKeys])
		for _, key := range keys {
			above, below := n.passesOver(key, affected, disordered, named)
			if above == "" {
				above = doubtful[key]
			}
			over, under := c.tally.does("counts from above", above), c.tally.does("counts from below", below)
			for _, w := range []int64{1, 7, 60, 300, 1800, 86400} {
				want := truth.Count(key, now, w)
				got, err := n.e.CountAt(time.Unix(now, 0), key, time.Duration(w)*time.Second)
				inexact := got.Lower != got.Upper && w <= 300 && (!c.crowded || key == engine.AllKeys) && !(c.wild && c.holes == simBeyond) // the last: now is before what is ahead
				if over && (err != nil || got.Lower > want) || under && (err != nil || got.Upper < want || inexact) {
					c.failf("%s counts %+v of %s in %d s, want %d, %v; findings %v", n.name, got, strings.TrimSuffix(key, simLong), w, want, err, all)
					break
				}
			}
		}
		for key, used := range truth.admitted {
			above, below := n.passesOver(key, affected, nil, named)
			over, under := c.tally.does("admissions from above", above), c.tally.does("admissions from below", below)
			least := used
			if c.wild { // what is timed by a clock that is far behind is over
				known, _ := n.admissions(key)
				least = uint64(known)
			}
			v, err := n.limit.Peek(key, 0)
			if over && (err != nil || v.Remaining < simLimit-used) || under && (err != nil || v.Remaining > simLimit-least) {
				c.failf("%s has %d of %s left, want %d to %d, %v; findings %v", n.name, v.Remaining, key, simLimit-used, simLimit-least, err, all)
			}
		}
	}
}

// passesOver tells on which grounds a key's count on a node is not held against the truth
// from above, or from below; empty: it is. What is lost may be missing, and is never there
// twice.
func (n *simNode) passesOver(key string, affected, disordered map[string]bool, named func(string) bool) (above, below string) {
	switch {
	case !n.answers(key):
		return "not held", "not held"
	case disordered[key]:
		return "deleted while a flush was lost", "deleted while a flush was lost"
	case affected[key] && n.c.alarms > 0:
		return "", "in a lost flush of a process that is gone"
	case named(key):
		return "", "named by the node"
	case n.c.unsound(n, key):
		return "", "without a sound snapshot, and said so"
	}
	return "", ""
}

// unsound tells whether a key may be wrong on all nodes: its partition had no sound
// snapshot any more, the journal was trimmed, and who loaded it has said so.
func (c *simCluster) unsound(n *simNode, key string) bool {
	return c.unsure[n.e.Keyspace().PartitionOf(key)] || c.blind && len(c.spoiled) > 0 && (key == engine.AllKeys || c.spoiled[n.e.Keyspace().PartitionOf(key)])
}

// affected are the keys that may be wrong on nodes that say nothing, as another
// node has raised the alarm: those of flushes that were lost together with all that
// knew of them, the resend buffer of their process.
func (c *simCluster) affected() map[string]bool {
	keys := map[string]bool{}
	for _, f := range c.model.flushes {
		if !f.lost || c.resends(f) {
			continue
		}
		for _, op := range f.ops {
			keys[op.key], keys[engine.AllKeys] = true, true
		}
	}
	return keys
}

// resends tells whether the process of a flush goes on, and has it in its resend buffer if that has space.
func (c *simCluster) resends(f *simFlush) bool {
	return slices.ContainsFunc(c.nodes, func(n *simNode) bool { return n.r.encoder != nil && n.r.encoder.Incarnation == f.Incarnation })
}

// disordered are the keys that were deleted while a message about them was lost: when
// its origin sent it again, others were applied that come after it in the journal.
func (c *simCluster) disordered() map[string]bool {
	deleted, keys := map[string]bool{}, map[string]bool{}
	for _, f := range c.model.counted {
		for _, op := range f.ops {
			deleted[op.key] = deleted[op.key] || op.kind == simDelete
		}
	}
	for _, f := range c.model.flushes {
		for _, op := range f.ops {
			if f.lost && deleted[op.key] {
				keys[op.key] = true
			}
		}
	}
	return keys
}

// simDoubtful is why more hits of a key may be counted than there are: a flush is lost that counts a request, and with it what its
// origin kept to send again. Who lacks the flush counts the request's retry; so does its origin, which has the hits of both.
const simDoubtful = "a retry of a request of a lost flush"

// doubtful are the keys of such requests, and why they are.
func (c *simCluster) doubtful() map[string]string {
	flushes := map[simRequest]map[*simFlush]bool{}
	for _, f := range c.model.flushes {
		for _, op := range f.ops {
			if op.request.key != "" {
				if flushes[op.request] == nil {
					flushes[op.request] = map[*simFlush]bool{}
				}
				flushes[op.request][f] = true
			}
		}
	}
	keys := map[string]string{}
	for _, f := range c.model.flushes {
		for _, op := range f.ops {
			if f.lost && c.holes == simBeyond && (c.ringBytes > 0 || !c.resends(f)) && len(flushes[op.request]) > 1 {
				keys[op.key], keys[engine.AllKeys] = simDoubtful, simDoubtful
			}
		}
	}
	return keys
}

// findings tells which keys a node says it may miss hits of, and all that it says.
func (n *simNode) findings() (named func(key string) bool, all []string) {
	for _, f := range n.r.audit.Findings {
		all = append(all, f.String())
	}
	return func(key string) bool {
		for _, f := range all {
			_, rest, ok := strings.Cut(f, "), partition ")
			if !strings.HasPrefix(f, "origin ") || !ok {
				continue
			}
			if key == engine.AllKeys {
				return true
			}
			rest, _, _ = strings.Cut(rest, ":")
			if slices.Contains(strings.Fields(rest), fmt.Sprint(n.e.Keyspace().PartitionOf(key))) {
				return true
			}
		}
		return false
	}, all
}

// checkFreshness checks that all hits until as_of that are in the log are here.
func (n *simNode) checkFreshness() {
	asOf, _ := n.r.Freshness(n.c.now())
	next := n.r.Next()
	for _, f := range slices.Backward(n.c.model.counted) {
		if f.sequence < next {
			break
		}
		for _, op := range f.ops {
			if op.wall < asOf.UnixMilli() && !f.lost && !n.c.replaced[f.Origin] && f.Origin != n.origin && op.wall < n.freshUntil(asOf, f.Origin).UnixMilli() {
				n.c.failf("%s says it has all until %v, and has not flush %d of %x in message %d", n.name, asOf.UTC(), f.flush, f.Origin, f.sequence)
				return
			}
		}
	}
}

// mustKnow tells whether a node must know a request's key.
func (n *simNode) mustKnow(key string) bool {
	for _, f := range n.c.model.once[key] {
		_, live := n.arrived[f.sequence]
		if f.Incarnation == n.r.encoder.Incarnation || (live || !n.c.wild) && f.sequence > 0 && f.sequence < n.r.Next() && !f.lost {
			return true
		}
	}
	return slices.Contains(n.once, key)
}
