// Package sources is who answers a question about keys: this node's engine, the nodes of its cluster, or all
// regions; what an answer waits for, and as of when it is.
//
// Whether there is a cluster is asked once, in New: peers has an implementation for each.
package sources
