package journal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir"
)

// check is what must be true at the end.
func (c *simCluster) check() {
	c.failures = append(c.failures, c.model.faults...)
	c.checkSlots()
	truth := c.model.truth()
	now := truth.newest()
	keys := []string{weir.AllKeys}
	for key := range truth.hits {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	affected, disordered := c.affected(), c.disordered()
	for _, n := range c.nodes {
		if !n.ready {
			c.failf("%s does not run", n.name)
			continue
		}
		if n.r.next() != c.log.Last()+1 {
			c.failf("%s is at message %d of %d", n.name, n.r.next()-1, c.log.Last())
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
		n.checkTotal(truth, now)
		for _, key := range keys {
			if affected[key] && c.alarms > 0 || disordered[key] || named(key) || c.unsound(n, key) || !n.answers(key) {
				continue
			}
			for _, w := range []int64{1, 7, 60, 300, 1800, 86400} {
				want := truth.count(key, now, w)
				got, err := n.e.CountAt(time.Unix(now, 0), key, time.Duration(w)*time.Second)
				if err != nil || got.Lower > want || got.Upper < want || got.Lower != got.Upper && w <= 300 && (!c.crowded || key == weir.AllKeys) && !(c.wild && c.holes == simBeyond) { // the last: now is before what is ahead
					c.failf("%s counts %+v of %s in %d s, want %d, %v; findings %v", n.name, got, strings.TrimSuffix(key, simLong), w, want, err, all)
					break
				}
			}
		}
		for key, used := range truth.admitted {
			if c.wild { // what is told by a clock a year behind is over
				break
			}
			if v, err := n.limit.Peek(key, 0); n.answers(key) && !named(key) && !affected[key] && !c.unsound(n, key) && (err != nil || v.Remaining != simLimit-used) {
				c.failf("%s has %d of %s left, want %d, %v; findings %v", n.name, v.Remaining, key, simLimit-used, err, all)
			}
		}
	}
}

// unsound tells whether a key may be wrong on all nodes: its partition had no sound
// snapshot any more, the journal was trimmed, and who loaded it has said so.
func (c *simCluster) unsound(n *simNode, key string) bool {
	return c.unsure[n.e.Replication().PartitionOf(key)] || c.blind && len(c.spoiled) > 0 && (key == weir.AllKeys || c.spoiled[n.e.Replication().PartitionOf(key)])
}

// affected are the keys that may be wrong on nodes that say nothing, as another
// node has raised the alarm: those of flushes that were lost together with all that
// knew of them, the ring of their process.
func (c *simCluster) affected() map[string]bool {
	keys := map[string]bool{}
	for _, f := range c.model.flushes {
		if !f.lost || slices.ContainsFunc(c.nodes, func(n *simNode) bool { return n.r.encoder != nil && n.r.encoder.life == f.life }) {
			continue
		}
		for _, op := range f.ops {
			keys[op.key], keys[weir.AllKeys] = true, true
		}
	}
	return keys
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

// findings tells which keys a node says it may miss hits of, and all that it says.
func (n *simNode) findings() (named func(key string) bool, all []string) {
	for _, f := range n.r.audit.findings {
		all = append(all, f.String())
	}
	return func(key string) bool {
		for _, f := range all {
			_, rest, ok := strings.Cut(f, "), partition ")
			if !strings.HasPrefix(f, "origin ") || !ok {
				continue
			}
			if key == weir.AllKeys {
				return true
			}
			rest, _, _ = strings.Cut(rest, ":")
			if slices.Contains(strings.Fields(rest), fmt.Sprint(n.e.Replication().PartitionOf(key))) {
				return true
			}
		}
		return false
	}, all
}

// checkFreshness checks that all hits until as_of that are in the log are here.
func (n *simNode) checkFreshness() {
	asOf, _ := n.r.freshness(n.c.now())
	next := n.r.next()
	for _, f := range slices.Backward(n.c.model.counted) {
		if f.sequence < next {
			break
		}
		for _, op := range f.ops {
			if op.wall < asOf.UnixMilli() && !f.lost && !n.c.replaced[f.origin] && f.origin != n.origin && op.wall < n.freshUntil(asOf, f.origin).UnixMilli() {
				n.c.failf("%s says it has all until %v, and has not flush %d of %x in message %d", n.name, asOf.UTC(), f.flush, f.origin, f.sequence)
				return
			}
		}
	}
}

// mustKnow tells whether a node must know a request's key.
func (n *simNode) mustKnow(key string) bool {
	for _, f := range n.c.model.once[key] {
		_, live := n.arrived[f.sequence]
		if f.life == n.r.encoder.life || (live || !n.c.wild) && f.sequence > 0 && f.sequence < n.r.next() && !f.lost {
			return true
		}
	}
	return slices.Contains(n.once, key)
}
