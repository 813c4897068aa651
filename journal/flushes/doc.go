// Package flushes reads a journal in its order for the digests of a region: each whole flush of each origin
// once, from a Position on that says in some hundred bytes what was handed out, since every digest has one.
//
// Beside package tail, which hands out batches and whose position is as large as the positions of all partitions:
// here what the journal has lost is had from its origin again, as a node does that follows, so that the
// other regions count no less than this one.
//
// Invariants: what a Tail hands out from one position to the next does not depend on where it was
// stopped and begun again between; a flush comes as a whole, after those before it of its origin;
// a repeat is dropped; a gap is told (Missing) before what comes after it.
//
// It is pure: no clock, no network. Method ReadFlushes of package journal drives it, which knows how to read
// messages, and whom to ask for what is missing.
package flushes
