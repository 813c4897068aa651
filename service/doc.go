// Package service is what every door of Weir calls: a door speaks a protocol (HTTP in
// package server), parses, calls a method of Service, and writes what it returns. Here
// is all that is the same whatever the protocol, put together of rooms by job: who calls and what that one may
// do (access), hits (ingest), questions about keys (reads), limits (decisions), what operators do (admin), what is
// wrong (health). Service embeds them, so that a door calls all by one type, and finds each name that it needs here.
//
// Invariants. A method returns answers of package api, ready to be written, and fails
// with an *Error alone, whose Code a door maps to its protocol once. No method waits
// longer than its context. Whatever may be used up has a Pool: a door takes a place of
// Pools.Questions or Pools.Admin before it asks, and keeps it until its client has taken
// the answer; only the door knows when that is. Whether there is a journal, or a cluster, is asked
// once, in New: packages storage and sources have an implementation for each.
//
// Neighbours. Below are the engine and the policies; journal and cluster are known by
// the interfaces of package backend and Answers, which whoever wires them implements. No
// protocol is known here: neither net/http nor a framework is imported. A room imports the smaller ones
// that it needs, and no other of the six; none imports this package.
package service
