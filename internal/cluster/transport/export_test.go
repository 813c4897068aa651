package transport

import "time"

// ClientURL is where the embedded server listens for clients.
func (n *Node) ClientURL() string { return n.server.Load().ClientURL() }

// SetSize makes a node believe for a second that its cluster is that large.
func (n *Node) SetSize(size int) {
	n.size.Store(int64(size))
	n.sized.Store(time.Now().UnixNano())
}

// AgeQuestion makes the question for the server's health, which has no answer yet, old.
func (n *Node) AgeQuestion() {
	n.probes.mu.Lock()
	defer n.probes.mu.Unlock()
	n.probes.asked = time.Now().Add(-2 * silentAfter)
}
