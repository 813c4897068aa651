package replica

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/engine"
)

// act is one thing that somebody wants.
func (c *simCluster) act() {
	n := c.ready()
	if n == nil {
		return
	}
	if c.topics && c.holes == simSound && c.w.Chance(.3) {
		n.read()
		return
	}
	switch c.w.IntN(20) {
	case 0, 1:
		c.asked++
		n.request(fmt.Sprint("r", c.asked))
		for _, other := range c.nodes {
			if c.retries && other.ready && !other.leaving {
				if c.removes {
					other.removeBefore(fmt.Sprint("r", c.asked))
				}
				other.request(fmt.Sprint("r", c.asked))
			}
		}
	case 2:
		if c.asked > 0 {
			n.request(fmt.Sprint("r", 1+c.w.IntN(c.asked)))
		}
	case 3:
		n.takeOne()
	case 4:
		n.takeScarce()
	case 5:
		if c.crowded { // a key may be evicted or not, and then there is nothing to delete
			return
		}
		n.remove(fmt.Sprintf("k%02d", c.w.IntN(20)))
	default:
		n.hit(c.key())
	}
}

// remove deletes a key.
func (n *simNode) remove(key string) {
	was, err := n.e.Delete(key)
	if n.refused(err) {
		return
	}
	if held := n.e.Keyspace().Holds(n.e.Keyspace().PartitionOf(key)); held != (err == nil) {
		n.c.failf("held: %v, %v", held, err)
	} else if was {
		n.ops = append(n.ops, simOp{kind: simDelete, key: key, wall: n.wall(), right: n.c.now().UnixMilli()})
	}
}

// removeBefore hits a key of a request in the second of the request, and deletes it: a retry in the same flush comes after both.
func (n *simNode) removeBefore(request string) {
	op := n.c.requests[request][n.c.w.IntN(3)]
	for range n.c.w.IntN(3) {
		op := simOp{kind: simHit, key: op.key, at: op.at, n: 1 + n.c.w.Uint64N(3), wall: n.wall(), right: n.c.now().UnixMilli()}
		if n.c.crowded {
			return
		}
		if outcome, err := n.e.HitAt(time.Unix(op.at, 0), op.key, op.n); err == nil && (outcome == engine.Counted || outcome == engine.Late) { // its clock may be another
			n.ops = append(n.ops, op)
			n.remove(op.key)
		}
	}
}

// simLong makes keys take memory.
var simLong = strings.Repeat("x", 500)

// key is one of a few that are often hit, or where memory is short one of many.
func (c *simCluster) key() string {
	if c.crowded && c.w.Chance(.8) {
		return fmt.Sprintf("f%03d%s", c.w.IntN(800), simLong)
	}
	return fmt.Sprintf("k%02d", c.w.IntN(20))
}

// harm is one thing that nobody wants.
func (c *simCluster) harm() {
	a, b := c.nodes[c.w.IntN(len(c.nodes))], c.nodes[c.w.IntN(len(c.nodes))]
	switch c.w.IntN(22) {
	case 0, 1:
		c.w.Logf("cut between %s and %s", a.name, b.name)
		c.net.Cut(a.name, b.name)
	case 2:
		c.w.Logf("heal")
		c.net.Heal()
	case 3:
		c.net.SetFaults(c.faults())
	case 4, 5:
		if a.up() && !c.protected[a.name] {
			a.crash()
		}
	case 6, 7:
		if !a.up() {
			a.start()
		}
	case 8:
		if a.ready && !c.protected[a.name] {
			c.w.Logf("%s stops", a.name)
			a.leaving = true
		}
	case 9:
		if a.up() && !c.protected[a.name] && c.w.Chance(.5) {
			a.crash()
			c.replaced[a.origin] = true
			a.origin, a.epoch, a.sets = c.w.Uint64(), 0, nil
			a.latest.Store(0)
			c.w.Logf("%s has a new directory, of origin %016x", a.name, a.origin)
			a.start()
		}
	case 10:
		a.takes, a.listed = !a.takes, false
		c.w.Logf("%s takes snapshots: %v", a.name, a.takes)
	case 11, 12:
		a.wants = c.w.Perm(simPartitions)
		a.listed = a.listed && !c.shares
	case 13:
		c.lose()
	case 18:
		if a.up() && !c.protected[a.name] { // what it sent comes while it starts
			a.crash()
			a.start()
		}
	case 19:
		a.stall()
	case 20:
		a.jump()
	case 21:
		if c.damages {
			c.damageSlot()
		}
	case 14, 15:
		if a.ready && c.shares {
			a.release()
		}
	case 16, 17:
		if a.ready && c.shares {
			c.giveShares(a, b)
		}
	}
}

// giveShares has a node take some partitions: now, or once another one has taken snapshots
// that are ahead of what it followed.
func (c *simCluster) giveShares(n, other *simNode) {
	some := c.w.Perm(simPartitions)[:1+c.w.IntN(simPartitions)]
	if n == other || !other.ready || c.w.Chance(.6) {
		n.take(some)
		return
	}
	n.stall()
	other.takes, other.listed, other.wants = true, false, c.w.Perm(simPartitions)
	run := n.run
	c.w.After(c.w.Between(500*time.Millisecond, 2*time.Second), func() {
		if n.run == run {
			n.take(some)
		}
	})
}

// stall keeps a node from following for a while.
func (n *simNode) stall() {
	n.stalled = n.c.w.Now() + n.c.w.Between(100*time.Millisecond, 4*time.Second)
	n.c.w.Logf("%s follows nothing until %v", n.name, n.stalled)
}

// lose takes a message from the log: from one replica, or from all.
func (c *simCluster) lose() {
	last := c.log.Last()
	if last == 0 {
		return
	}
	sequence := last - min(last-1, uint64(c.w.IntN(5)))
	if c.holes == simSound {
		if p := c.model.parts[&c.log.Message(sequence)[0]]; len(c.nodes) >= Replicas && !c.damaged[p] {
			c.damaged[p] = true // not by another replica too
			c.w.Logf("one replica loses message %d", sequence)
			c.log.Lose(sequence, 1)
		}
		return
	}
	p := c.model.parts[&c.log.Message(sequence)[0]]
	if c.holes == simCovered {
		i := slices.IndexFunc(c.nodes, func(n *simNode) bool { return n.ready && !n.leaving && n.r.encoder.Incarnation == p.Incarnation })
		if i < 0 {
			return
		}
		c.protected[c.nodes[i].name] = true
	}
	c.w.Logf("all replicas lose message %d: flush %d part %d of %016x", sequence, p.flush, p.part, p.Origin)
	c.model.flushes[p.simFlushID].lost = true
	c.log.Lose(sequence, Replicas)
}
