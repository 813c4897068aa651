package sim

import "time"

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
