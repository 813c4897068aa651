package journal

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/sim"
)

// simCluster is one simulation: nodes in a world that fails, as its seed says.
type simCluster struct {
	t     *testing.T
	w     *sim.World
	net   *sim.Network
	log   *sim.Log
	slots *sim.Registers
	model *simModel
	nodes []*simNode

	shares    bool // nodes hold some partitions only
	holes     simHoles
	ringBytes int
	replaced  map[uint64]bool // origins whose directory is gone
	protected map[string]bool // nodes that keep their ring
	damaged   map[simPart]bool
	asked     int  // requests with a key so far
	alarms    int  // messages that a node found lost, and findings
	quiet     bool // nobody begins a flush any more
	failures  []string
}

// simHoles is what the log loses of itself.
type simHoles uint8

const (
	simSound   simHoles = iota // a replica now and then
	simCovered                 // a message of a process that goes on, and has it in its ring
	simBeyond                  // any message
)

// simBegin is the time of day at the beginning.
var simBegin = time.Unix(1_700_000_000, 0)

func newSimCluster(t *testing.T, seed uint64) *simCluster {
	w := sim.NewWorld(seed)
	c := &simCluster{t: t, w: w, model: newSimModel(), replaced: map[uint64]bool{}, protected: map[string]bool{}, damaged: map[simPart]bool{}}
	c.holes = []simHoles{simSound, simCovered, simSound, simBeyond}[seed%4]
	if c.holes == simBeyond && w.Chance(.5) {
		c.ringBytes = 1
	}
	c.shares = w.Chance(.5)
	c.net = sim.NewNetwork(w, c.faults())
	var names []string
	for i := range 1 + w.IntN(5) {
		n := &simNode{c: c, name: fmt.Sprint("n", i+1), origin: w.Uint64(), takes: i == 0}
		c.nodes = append(c.nodes, n)
		names = append(names, n.name)
	}
	c.log = sim.NewLog(w, c.net, names[:min(replicas, len(names))])
	c.log.Appended = func(sequence uint64, data []byte) {
		p := c.model.parts[&data[0]]
		w.Logf("message %d is part %d of flush %d of %016x in epoch %d", sequence, p.part, p.flush, p.origin, p.epoch)
		c.model.appended(sequence, data)
	}
	c.slots = sim.NewRegisters(c.log)
	for _, n := range c.nodes {
		n.start()
	}
	return c
}

func (c *simCluster) faults() sim.Faults {
	return sim.Faults{
		Lose: c.w.Float64() * .2, Repeat: c.w.Float64() * .1, Slow: c.w.Float64() * .1,
		Usual: 10 * time.Millisecond, Slowest: 3 * time.Second,
	}
}

func (c *simCluster) now() time.Time { return simBegin.Add(c.w.Now()) }

func (c *simCluster) must(err error) {
	if err != nil {
		c.failf("%v", err)
	}
}

func (c *simCluster) failf(format string, args ...any) {
	c.w.Logf("FAILED: "+format, args...)
	if len(c.failures) < 5 {
		c.failures = append(c.failures, fmt.Sprintf(format, args...))
	}
}

// play lets the world be bad for a while, then heals it and waits until nothing
// moves any more.
func (c *simCluster) play() {
	end := c.w.Between(3*time.Second, 25*time.Second)
	busy := c.w.Between(10*time.Millisecond, 100*time.Millisecond)
	during := func(f func()) func() bool {
		return func() bool {
			if c.w.Now() >= end {
				return false
			}
			f()
			return true
		}
	}
	c.w.Every(busy, during(c.act))
	c.w.Every(c.w.Between(100*time.Millisecond, 2*time.Second), during(c.harm))
	c.w.Run(end)
	c.w.Logf("all is healed")
	c.net.Heal()
	c.net.SetFaults(sim.Faults{Usual: 10 * time.Millisecond, Slowest: time.Second})
	for _, n := range c.nodes {
		n.leaving = false
		if !n.up() {
			n.start()
		}
		if run := n.run; c.shares && c.w.Chance(.7) {
			c.w.Every(2*time.Second, func() bool { return n.takeAll(run) })
		}
	}
	c.w.Run(auditEvery + 6*time.Second) // restarts, what is slow, and totals told by all
	c.quiet = true
	c.w.Run(2 * time.Second)
}

// ready is a random node that takes hits, or nil.
func (c *simCluster) ready() *simNode {
	n := c.nodes[c.w.IntN(len(c.nodes))]
	if !n.ready || n.leaving {
		return nil
	}
	return n
}

// act is one thing that somebody wants.
func (c *simCluster) act() {
	n := c.ready()
	if n == nil {
		return
	}
	switch c.w.IntN(20) {
	case 0, 1:
		c.asked++
		n.request(fmt.Sprint("r", c.asked))
	case 2:
		if c.asked > 0 {
			n.request(fmt.Sprint("r", 1+c.w.IntN(c.asked)))
		}
	case 3, 4:
		key := fmt.Sprintf("a%02d", c.w.IntN(10))
		if v, err := n.limit.Take(key, 1); err != nil || !v.Allowed {
			c.failf("%s denies %s: %+v, %v", n.name, key, v, err)
		}
		n.ops = append(n.ops, simOp{simAdmission, key, 0, 1, c.now().UnixMilli()})
	case 5:
		key := fmt.Sprintf("k%02d", c.w.IntN(20))
		was, err := n.e.Delete(key)
		if held := n.e.Holds(n.e.PartitionOf(key)); held != (err == nil) {
			c.failf("held: %v, %v", held, err)
		} else if was {
			n.ops = append(n.ops, simOp{simDelete, key, 0, 0, c.now().UnixMilli()})
		}
	default:
		n.hit(fmt.Sprintf("k%02d", c.w.IntN(20)))
	}
}

// harm is one thing that nobody wants.
func (c *simCluster) harm() {
	a, b := c.nodes[c.w.IntN(len(c.nodes))], c.nodes[c.w.IntN(len(c.nodes))]
	switch c.w.IntN(18) {
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
			a.origin, a.epoch = c.w.Uint64(), 0
			c.w.Logf("%s has a new directory, of origin %016x", a.name, a.origin)
			a.start()
		}
	case 10:
		a.takes, a.listed = !a.takes, false
		c.w.Logf("%s takes snapshots: %v", a.name, a.takes)
	case 11, 12:
		a.round = c.w.Perm(simPartitions)
	case 13:
		c.lose()
	case 14, 15:
		if a.ready && c.shares {
			a.release()
		}
	case 16, 17:
		if a.ready && c.shares {
			a.take(c.w.Perm(simPartitions)[:1+c.w.IntN(simPartitions)])
		}
	}
}

// lose takes a message from the log: from one replica, or from all.
func (c *simCluster) lose() {
	last := c.log.Last()
	if last == 0 {
		return
	}
	sequence := last - min(last-1, uint64(c.w.IntN(5)))
	if c.holes == simSound {
		if p := c.model.parts[&c.log.Message(sequence)[0]]; len(c.nodes) >= replicas && !c.damaged[p] {
			c.damaged[p] = true // not by another replica too
			c.w.Logf("one replica loses message %d", sequence)
			c.log.Lose(sequence, 1)
		}
		return
	}
	p := c.model.parts[&c.log.Message(sequence)[0]]
	if c.holes == simCovered {
		i := slices.IndexFunc(c.nodes, func(n *simNode) bool { return n.ready && !n.leaving && n.r.encoder.life == p.life })
		if i < 0 {
			return
		}
		c.protected[c.nodes[i].name] = true
	}
	c.w.Logf("all replicas lose message %d: flush %d part %d of %016x", sequence, p.flush, p.part, p.origin)
	c.model.flushes[p.simFlushID].lost = true
	c.log.Lose(sequence, replicas)
}

// check is what must be true at the end.
func (c *simCluster) check() {
	c.failures = append(c.failures, c.model.faults...)
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
		if len(all) > 0 && c.holes != simBeyond {
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
			if affected[key] && c.alarms > 0 || disordered[key] || named(key) || !n.answers(key) {
				continue
			}
			for _, w := range []int64{1, 7, 60, 300, 1800, 86400} {
				want := truth.count(key, now, w)
				got, err := n.e.CountAt(time.Unix(now, 0), key, time.Duration(w)*time.Second)
				if err != nil || got.Lower > want || got.Upper < want || got.Lower != got.Upper && w <= 300 {
					c.failf("%s counts %+v of %s in %d s, want %d, %v; findings %v", n.name, got, key, w, want, err, all)
					break
				}
			}
		}
		for key, used := range truth.admitted {
			if v, err := n.limit.Peek(key, 0); n.answers(key) && !named(key) && !affected[key] && (err != nil || v.Remaining != simLimit-used) {
				c.failf("%s has %d of %s left, want %d, %v; findings %v", n.name, v.Remaining, key, simLimit-used, err, all)
			}
		}
	}
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
			if slices.Contains(strings.Fields(rest), fmt.Sprint(n.e.PartitionOf(key))) {
				return true
			}
		}
		return false
	}, all
}
