// Package join connects this process to JetStream, in one of three ways:
//
//   - one node alone: an embedded server without a port (neither Cluster nor URL),
//   - a cluster of nodes, each with an embedded server (Cluster, Node, Addr, Peers),
//   - an existing NATS (URL).
//
// What the rest of the journal sees is the same: a connection that works, and
// the answer to how many replicas a stream can have.
//
// A cluster of n nodes goes on while more than half of them are up. Then one that
// comes back catches up by itself; its directory belongs to its name.
package join
