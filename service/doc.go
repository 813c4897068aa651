// Package service is what every door of Weir calls: a door speaks a protocol (HTTP in
// package server), parses, calls a method of Service, and writes what it returns. Here
// is all that is the same whatever the protocol: what became of a request of hits, and that
// a repeated one counts once; which keys are reserved, how fresh an
// answer is and what it waits for, whether this node's engine answers or the cluster,
// what a client may use up of the server, backups, what is wrong, and the one set of error
// codes.
//
// Invariants. A method returns answers of package api, ready to be written, and fails
// with an *Error alone, whose Code a door maps to its protocol once. No method waits
// longer than its context. Whatever may be used up has a Pool: a door takes a place of
// Pools.Questions or Pools.Admin before it asks, and keeps it until its client has taken
// the answer; only the door knows when that is. Whether there is a journal, or a cluster, is asked
// once, in New: storage and peers have an implementation for each.
//
// Neighbours. Below are the engine and the policies; journal and cluster are known by
// the interfaces Journal, Cluster and Answers, which whoever wires them implements. No
// protocol is known here: neither net/http nor a framework is imported.
package service
