package replica

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// Faults is how bad a network is.
type Faults struct {
	Lose   float64       // of messages that never come
	Repeat float64       // of messages that come twice
	Slow   float64       // of messages that take up to Slowest: they overtake each other
	Usual  time.Duration // that the others take at most
	// Slowest is longer than senders wait for an answer, so that what they gave up
	// comes after what they sent then.
	Slowest time.Duration
}

// Network carries messages between nodes, which are known by name.
type Network struct {
	w      *World
	faults Faults
	down   map[string]bool
	cut    map[[2]string]bool
}

// NewNetwork returns one where nothing is cut.
func NewNetwork(w *World, faults Faults) *Network {
	return &Network{w: w, faults: faults, down: map[string]bool{}, cut: map[[2]string]bool{}}
}

// SetFaults changes how bad it is.
func (n *Network) SetFaults(faults Faults) { n.faults = faults }

// Cut ends the way between two nodes, both ways; Join opens it.
func (n *Network) Cut(a, b string)  { n.cut[pair(a, b)] = true }
func (n *Network) Join(a, b string) { delete(n.cut, pair(a, b)) }

// Heal opens all ways. Nodes that are down stay so.
func (n *Network) Heal() { clear(n.cut) }

// SetDown says whether a node is down: nothing reaches it, and nothing leaves it.
// What it sent before is on its way.
func (n *Network) SetDown(node string, down bool) { n.down[node] = down }

// Reach tells whether two nodes that are up have a way to each other.
func (n *Network) Reach(a, b string) bool {
	return !n.down[a] && !n.down[b] && (a == b || !n.cut[pair(a, b)])
}

// Send runs deliver when a message from one node comes to another, if it does:
// never, once, or twice.
func (n *Network) Send(from, to string, deliver func()) {
	if !n.Reach(from, to) {
		return
	}
	if from == to {
		n.w.After(time.Millisecond/10, deliver)
		return
	}
	copies := 1
	switch {
	case n.w.Chance(n.faults.Lose):
		return
	case n.w.Chance(n.faults.Repeat):
		copies = 2
	}
	for range copies {
		took := n.w.Between(time.Millisecond/10, n.faults.Usual)
		if n.w.Chance(n.faults.Slow) {
			took = n.w.Between(n.faults.Usual, n.faults.Slowest)
		}
		n.w.After(took, func() {
			if !n.down[to] {
				deliver()
			}
		})
	}
}

func pair(a, b string) [2]string {
	if a > b {
		a, b = b, a
	}
	return [2]string{a, b}
}

// World is the clock, the chance and the record of one run.
type World struct {
	*rand.Rand

	now   time.Duration
	queue events
	made  uint64
	trace []string
}

// NewWorld begins at time 0.
func NewWorld(seed uint64) *World {
	return &World{Rand: rand.New(rand.NewPCG(seed, 0x5eed))}
}

// Now is the time since the beginning.
func (w *World) Now() time.Duration { return w.now }

// After runs f once the time has gone on by d. What is due at one time runs in the
// order in which it was asked for.
func (w *World) After(d time.Duration, f func()) {
	w.made++
	heap.Push(&w.queue, event{w.now + max(d, 0), w.made, f})
}

// Every runs f each time d has gone by, until it returns false.
func (w *World) Every(d time.Duration, f func() bool) {
	w.After(d, func() {
		if f() {
			w.Every(d, f)
		}
	})
}

// Run lets the time go on by d.
func (w *World) Run(d time.Duration) {
	end := w.now + d
	for len(w.queue) > 0 && w.queue[0].at <= end {
		next := heap.Pop(&w.queue).(event)
		w.now = next.at
		next.f()
	}
	w.now = end
}

// Chance is true with a probability from 0 to 1.
func (w *World) Chance(p float64) bool { return w.Float64() < p }

// Between is a duration from least to less than most.
func (w *World) Between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.Int64N(int64(most-least)))
}

// Logf adds a line to the trace, with the time before it.
func (w *World) Logf(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%9.3fs  ", w.now.Seconds())+fmt.Sprintf(format, args...))
}

// Trace has the lines of Logf so far.
func (w *World) Trace() []string { return w.trace }

// Sum is a checksum of the trace: two runs of one seed have the same.
func (w *World) Sum() uint64 {
	h := fnv.New64a()
	for _, line := range w.trace {
		h.Write([]byte(line)) // never fails
	}
	return h.Sum64()
}

type event struct {
	at   time.Duration
	made uint64
	f    func()
}

// events is a heap by time, then by order of making.
type events []event

func (q events) Len() int      { return len(q) }
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].made < q[j].made
}
func (q *events) Push(e any) { *q = append(*q, e.(event)) }
func (q *events) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// Registers are values by name, kept as a Log keeps its messages, and replaced
// only by who knows the one that is there.
type Registers struct {
	log    *Log
	values map[string]Register
	made   uint64
}

// Register is a value and its revision, which grows; 0: there is none.
type Register struct {
	Value    any
	Revision uint64
}

// NewRegisters are as available as the log is.
func NewRegisters(log *Log) *Registers {
	return &Registers{log: log, values: map[string]Register{}}
}

// Put replaces a value of a revision, some time later and perhaps never. done runs
// at its node, if the answer comes, with the new revision; 0: another was faster.
func (rs *Registers) Put(node, name string, known uint64, value any, done func(revision uint64)) {
	leader := rs.log.leaderFor(node)
	if leader == nil {
		return
	}
	rs.log.net.Send(node, leader.node, func() {
		if rs.log.leader() == nil {
			return
		}
		revision := uint64(0)
		if rs.values[name].Revision == known {
			rs.made++
			revision = rs.made
			rs.values[name] = Register{value, revision}
		}
		rs.log.net.Send(leader.node, node, func() { done(revision) })
	})
}

// Get reads a value.
func (rs *Registers) Get(node, name string) (Register, error) {
	if rs.log.leaderFor(node) == nil {
		return Register{}, ErrUnreachable
	}
	return rs.values[name], nil
}

// Look is the value of a name, whoever can reach it; nil: there is none.
func (rs *Registers) Look(name string) any { return rs.values[name].Value }

// Spoil changes a value that is there, as a disk does: nobody notices, and the revision
// stays.
func (rs *Registers) Spoil(name string, spoil func(value any) any) {
	if at := rs.values[name]; at.Revision > 0 {
		rs.values[name] = Register{spoil(at.Value), at.Revision}
	}
}
