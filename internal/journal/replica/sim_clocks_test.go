package replica

import (
	"fmt"
	"slices"
	"time"
)

// simSkew is how far a clock may be from the right time.
const simSkew = 5 * time.Second

// Wild clocks are off by more than the retention, and now and then by a year.
const (
	simWild      = 2 * time.Hour
	simWildest   = 365 * 24 * time.Hour
	simRetention = time.Hour
)

// skew is how far the clocks of this simulation may be off.
func (c *simCluster) skew() time.Duration {
	if c.wild {
		return simWildest
	}
	return simSkew
}

// jump sets a node's clock, if they differ.
func (n *simNode) jump() {
	if n.c.skewed {
		n.clock = n.c.w.Between(-simSkew, simSkew)
		switch {
		case n.c.wild && n.c.w.Chance(.2):
			n.clock = n.c.w.Between(-simWildest, simWildest)
		case n.c.wild && n.c.w.Chance(.5):
			n.clock = n.c.w.Between(-simWild, simWild)
		}
		n.c.w.Logf("the clock of %s is ahead by %v", n.name, n.clock)
	}
}

// noteClockSet is Journal.noteClockSet.
func (n *simNode) noteClockSet() bool {
	_, is := n.f.NoteClockSet()
	n.sets = n.r.ClockSets()
	return is
}

// sinceSet is by how many ms a node knows that its clock was set forward since a message: what it
// noted, and what it will with its next cut.
func (n *simNode) sinceSet(message uint64) int64 {
	sum := int64(0)
	for _, s := range n.sets {
		if s.After >= message {
			sum += s.MS
		}
	}
	if by := n.clock - n.base - n.r.behind; by.Abs() >= ClocksAgree {
		sum += by.Milliseconds()
	}
	return max(0, sum)
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
	heard := slices.ContainsFunc(n.r.Origins(n.c.now()), func(o OriginStatus) bool { return o.Origin == name && !o.Left && o.Flush > 0 })
	if n.c.skewed && !heard {
		return asOf.Add(-2 * n.c.skew())
	}
	return asOf
}

// meet notes when this life of the node first followed something of an origin.
func (n *simNode) meet(sequence uint64) {
	origin := n.c.model.parts[&n.c.log.Message(sequence)[0]].Origin
	if n.met[origin].IsZero() {
		n.met[origin] = n.c.now()
	}
}

// arrive notes when what was followed came.
func (n *simNode) arrive() {
	for ; n.unseen < n.r.Next(); n.unseen++ {
		n.arrived[n.unseen] = n.c.now().UnixMilli()
		n.learnFollowed(n.unseen)
		n.meet(n.unseen)
	}
}
