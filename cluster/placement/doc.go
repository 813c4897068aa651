// Package placement says which nodes of a cluster should hold a partition (Rank), and which
// do (Registry).
//
// What a node holds is a fact that it writes itself, under its own name, into a
// JetStream KV bucket: after it took a partition, and after it released one. Others read
// it to find whom to ask, and to know that a partition may be released. An entry does not
// age: whether its node is alive is told by its heartbeats in the journal, which all
// nodes read in any case, so that a cluster at rest writes nothing here. Nor is there
// anything to fence: two nodes that hold a partition both count all of it, and one that
// no longer does says so when it is asked.
package placement
