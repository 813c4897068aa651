package replica

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// simNamed is after what time hits that are missing must be named: what their node
// promised and some more, and as long as a beat, which says that all is well, may take.
func (n *simNode) simNamed() time.Duration {
	return Promised(n.flushEvery) + LateAfter + simSlowest + HeartbeatEvery
}

// checkLate checks that each node of which hits are missing for long is named: where
// nothing was ever followed or heard of it since it left, this node itself, and where something
// was followed a moment ago, once a beat should have come that says how far it is. Clocks that
// jump are for themselves.
func (n *simNode) checkLate() {
	if n.c.skewed || !n.ready || n.c.now().Sub(n.since) < simSlowest+LateAfter { // it has not heard what they say of themselves
		return
	}
	var late []string
	_, list := n.r.Freshness(n.c.now())
	for _, o := range list {
		late = append(late, o.Node)
	}
	for _, other := range n.c.nodes {
		if other == n || !other.up() || other.r.encoder == nil || slices.Contains(late, other.name) {
			continue
		}
		since, lacks := n.lacks(other)
		met, known := n.met[other.origin]
		known = known && !n.knowsLeft(other)
		named := other.simNamed()
		if !known {
			named = max(named, n.simNamed())
		}
		switch {
		case !lacks || n.c.now().Sub(since) <= named:
		case known && n.c.now().Sub(met) <= LateAfter:
		case !known && slices.Contains(late, n.name):
		default:
			n.c.failf("%s lacks hits of %s since %v, and does not say so: %v are late", n.name, other.name, n.c.now().Sub(since), late)
			return
		}
	}
}

// knowsLeft tells whether the last that a node knows of another one is that it left.
func (n *simNode) knowsLeft(other *simNode) bool {
	if p := n.r.peers[other.origin]; p != nil && p.epoch == other.r.encoder.Epoch {
		return false
	}
	for _, f := range slices.Backward(n.c.model.counted) {
		if f.Origin == other.origin && f.sequence < n.r.Next() {
			return f.leaving
		}
	}
	return false
}

// lacks tells when another node took the first hit of its life that is not here.
func (n *simNode) lacks(other *simNode) (since time.Time, ok bool) {
	wall := int64(0)
	see := func(ops []simOp) {
		if len(ops) > 0 && (wall == 0 || ops[0].wall < wall) {
			wall = ops[0].wall
		}
	}
	next := n.r.Next()
	for _, f := range slices.Backward(n.c.model.counted) {
		if f.sequence < next {
			break
		}
		if f.Incarnation == other.r.encoder.Incarnation && !f.lost {
			see(f.ops)
		}
	}
	if f := other.sending; f != nil && f.sequence == 0 { // else it is counted: its origin may not know yet that the log has it
		see(f.ops)
	}
	see(other.ops)
	return time.UnixMilli(wall), wall > 0
}

// noneLate checks that nobody is called late once all is healed.
func (c *simCluster) noneLate() {
	for _, n := range c.nodes {
		if !n.ready || c.skewed {
			continue
		}
		_, late := n.r.Freshness(n.c.now())
		for _, o := range late {
			if strings.HasPrefix(o.Node, "(") && c.holes == simBeyond && c.model.lost() { // the end of a backup: it is to be restored again
				continue
			}
			if i := slices.IndexFunc(c.nodes, func(other *simNode) bool { return other.name == o.Node }); i < 0 || c.nodes[i].ready {
				c.failf("%s calls %s late, %s since %v, and all is well", n.name, o.Node, o.Why, o.Since.UTC())
			}
		}
	}
}

// All replicas lose the hello of a node that no other node reaches from then on, and another node starts again: it has nothing of the
// first one, and hears nothing, but knows of it as a member, and calls it late (seed 81203).
func TestMemberThatNobodyHears(t *testing.T) {
	c := newSimCluster(t, 8) // of three nodes and more, whose clocks agree
	defer c.end()
	c.net.SetFaults(Faults{Usual: time.Millisecond, Slowest: 2 * time.Millisecond})
	if len(c.nodes) < 3 || c.skewed {
		t.Fatalf("%d nodes, skewed %v: take another seed", len(c.nodes), c.skewed)
	}
	first, lost := c.nodes[0], c.nodes[2]
	c.log.Appended = func(sequence uint64, data []byte) {
		if c.model.appended(sequence, data); c.model.parts[&data[0]].Origin == lost.origin {
			c.log.Lose(sequence, Replicas)
		}
	}
	c.w.Run(5 * time.Second)
	for _, other := range c.nodes {
		if other != lost {
			c.net.Cut(lost.name, other.name)
		}
	}
	first.crash()
	first.start()
	c.w.Run(2 * time.Second)
	lost.hit("k")
	c.w.Run(lost.simNamed() + LateAfter)
	_, late := first.r.Freshness(c.now())
	if len(late) != 1 || late[0].Node != lost.name || late[0].Why != Silent {
		t.Errorf("late are %+v, want %s", late, lost.name)
	}
	for _, failed := range c.failures {
		t.Error(failed)
	}
}
