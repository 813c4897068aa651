// Package member is who belongs to a cluster: it refuses a second node of the same name, has the
// streams kept by as many nodes as there can be, removes a node that is dead for good, and
// learns of those that others removed.
//
// Invariants: a node that is heard of or answers is not removed; what a removed node journalled stays
// counted, and what it journals later is counted too; an answer waits for no removed node.
//
// Package join takes the vote and the replicas of a removed node, package holders its place
// among those that hold partitions. Package journal runs the loop; package service asks for a removal.
package member
