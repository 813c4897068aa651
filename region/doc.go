// Package region makes a node's or a cluster's journal one region of several: it writes digests of what the
// region counts, takes those of other regions over links, and keeps windows of these.
//
// All of it goes through one log, a JetStream stream of the region itself, which every node reads in its order
// (follow.go): package ledger says what is new, package view has the windows. One node, the owner, writes it (owner.go): own digests (digests.go), bases (base.go), and
// what links bring (links.go). Any node serves the log to other regions (feed.go).
//
// Invariants: an append names the message that it follows, so who has not read all that is there writes nothing; a
// digest goes on at the place of the journal that the one before it in the log says; nothing that the region counts ever
// waits for any of this.
package region
