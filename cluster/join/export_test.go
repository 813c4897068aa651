package join

// ClientURL is where the embedded server listens for clients.
func (n *Node) ClientURL() string { return n.running().ClientURL() }
