package journal

import (
	"fmt"
	"slices"
	"time"
)

// simSkew is how far a clock may be from the right time.
const simSkew = 5 * time.Second

// jump sets a node's clock, if they differ.
func (n *simNode) jump() {
	if n.c.skewed {
		n.clock = n.c.w.Between(-simSkew, simSkew)
		n.c.w.Logf("the clock of %s is ahead by %v", n.name, n.clock)
	}
}

// now is the time by the node's own clock. Batches of different partitions ask for it side
// by side.
func (n *simNode) now() time.Time {
	now := n.c.now().Add(n.clock)
	for was := n.latest.Load(); now.UnixMilli() > was && !n.latest.CompareAndSwap(was, now.UnixMilli()); {
		was = n.latest.Load()
	}
	return now
}

// wall is the latest time in Unix ms that the node's clock has shown: what it was asked
// after its clock jumped back counts as asked then.
func (n *simNode) wall() int64 {
	n.now()
	return n.latest.Load()
}

// freshUntil is until when a node says that it has all hits of an origin, by the clock of
// that. Of one that it does not hear of it can only say so by its own clock.
func (n *simNode) freshUntil(asOf time.Time, origin uint64) time.Time {
	name := fmt.Sprintf("%016x", origin)
	heard := slices.ContainsFunc(n.r.origins(n.now()), func(o OriginStatus) bool { return o.Origin == name && !o.Left && o.Flush > 0 })
	if n.c.skewed && !heard {
		return asOf.Add(-2 * simSkew)
	}
	return asOf
}
