package replica

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/journal/record"
)

// simCluster is one simulation: nodes in a world that fails, as its seed says.
type simCluster struct {
	t     *testing.T
	w     *World
	net   *Network
	log   *Log
	slots *Registers
	model *simModel
	nodes []*simNode

	shares    bool       // nodes hold some partitions only
	damages   bool       // slots of snapshots are damaged
	crowded   bool       // there is not enough memory for all keys
	skewed    bool       // clocks differ, and jump
	disks     bool       // disks fail
	restores  bool       // backups are restored meanwhile
	backup    *simBackup // the last one
	wild      bool       // by more than the retention
	holes     simHoles
	ringBytes int
	max       int64           // size bound of the journal; 0: none
	replaced  map[uint64]bool // origins whose directory is gone
	members   map[string]record.Incarnation
	protected map[string]bool // nodes that keep their ring
	damaged   map[simPart]bool
	spoiled   map[int]bool // partitions without a sound snapshot for a while
	unsure    map[int]bool // partitions that a node may have snapshotted without own hits, and said so
	blind     bool         // a node has said so, as what was before is trimmed
	asked     int          // requests with a key so far
	requests  map[string][3]simOp
	topics    bool    // nodes read a topic
	topic     []simOp // its messages
	retries   bool    // many requests are repeated at once at another node
	removes   bool    // between hits of their keys there that were deleted, and their own
	alarms    int     // messages that a node found lost, and findings
	healed    bool    // nothing fails any more
	quiet     bool    // nobody begins a flush any more
	failures  []string
	takes     []func() // each ends a take-over
	tally     *simTally
}

// simHoles is what the log loses of itself.
type simHoles uint8

const (
	simSound   simHoles = iota // a replica now and then
	simCovered                 // a message of a process that goes on, and has it in its resend buffer
	simBeyond                  // any message
)

// simSlowest is how long a message takes at most.
const simSlowest = 3 * time.Second

// simBegin is the time of day at the beginning.
var simBegin = time.Unix(1_700_000_000, 0)

func newSimCluster(t *testing.T, seed uint64) *simCluster {
	w := NewWorld(seed)
	c := &simCluster{t: t, w: w, model: newSimModel(), replaced: map[uint64]bool{}, members: map[string]record.Incarnation{}, protected: map[string]bool{}, damaged: map[simPart]bool{}, spoiled: map[int]bool{}, unsure: map[int]bool{}, tally: newSimTally(), requests: map[string][3]simOp{}}
	c.holes = []simHoles{simSound, simCovered, simSound, simBeyond}[seed%4]
	if c.holes == simBeyond && w.Chance(.5) {
		c.ringBytes = 1
	}
	c.shares, c.damages, c.skewed, c.crowded = w.Chance(.5), w.Chance(.4), w.Chance(.3), w.Chance(.15)
	c.disks = seed%7 >= 5 // by the seed itself: others keep their runs
	c.restores = seed%11 == 0
	c.removes = seed%17 == 16
	c.retries = seed%13 == 12 || c.removes
	c.topics = seed%5 >= 3
	c.wild = c.skewed && w.Chance(.4)
	c.net = NewNetwork(w, c.faults())
	var names []string
	for i := range 1 + w.IntN(5) {
		n := &simNode{c: c, name: fmt.Sprint("n", i+1), origin: w.Uint64(), takes: i == 0, flushEvery: 100 * time.Millisecond}
		if w.Chance(.3) {
			n.flushEvery = []time.Duration{20 * time.Millisecond, 700 * time.Millisecond, 3 * time.Second}[w.IntN(3)]
		}
		c.nodes = append(c.nodes, n)
		names = append(names, n.name)
	}
	c.log = NewLog(w, c.net, names[:min(Replicas, len(names))])
	c.log.Appended = func(sequence uint64, data []byte) {
		p := c.model.parts[&data[0]]
		w.Logf("message %d is part %d of flush %d of %016x in epoch %d", sequence, p.part, p.flush, p.Origin, p.Epoch)
		c.model.appended(sequence, data)
	}
	c.slots = NewRegisters(c.log)
	for _, n := range c.nodes {
		n.jump()
		n.start()
	}
	return c
}

func (c *simCluster) faults() Faults {
	usual := 10 * time.Millisecond
	if c.w.Chance(.3) { // far from each other
		usual = 100 * time.Millisecond
	}
	return Faults{
		Lose: c.w.Float64() * .2, Repeat: c.w.Float64() * .1, Slow: c.w.Float64() * .1,
		Usual: usual, Slowest: simSlowest,
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
	if c.crowded {
		busy = 10 * time.Millisecond
	}
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
	if c.disks {
		c.w.Every(c.w.Between(500*time.Millisecond, 4*time.Second), during(c.harmDisk))
	}
	if c.restores {
		c.w.Every(c.w.Between(300*time.Millisecond, 3*time.Second), func() bool {
			c.restore()
			return !c.quiet
		})
	}
	c.w.Run(end)
	c.w.Logf("all is healed")
	c.healed = true
	c.net.Heal()
	c.healDisks()
	c.net.SetFaults(Faults{Usual: 10 * time.Millisecond, Slowest: time.Second})
	for _, n := range c.nodes {
		n.leaving, n.stalled = false, 0
		if c.max > 0 { // one has the lease, and looks what others stored
			n.takes, n.listed = n == c.nodes[0], false
		}
		if !n.up() {
			n.start()
		}
		if run := n.run; c.shares && c.w.Chance(.7) {
			c.w.Every(2*time.Second, func() bool { return n.takeAll(run) })
		}
	}
	c.w.Run(auditEvery + 2*simSkew + 6*time.Second) // restarts, what is slow, and totals from all
	c.noneLate()
	c.checkHealthy()
	c.checkSpace()
	c.lastRounds()
	c.quiet = true
	c.w.Run(2 * time.Second)
	c.checkReplicas()
	c.lastStart()
}

// ready is a random node that takes hits, or nil.
func (c *simCluster) ready() *simNode {
	n := c.nodes[c.w.IntN(len(c.nodes))]
	if !n.ready || n.leaving {
		return nil
	}
	return n
}
