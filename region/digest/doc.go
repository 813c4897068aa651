// Package digest is what a region tells the others of its hits: digests, each of which adds up what the journal has
// since the one before (Sum), and bases, which are the whole state of the region at a digest. It has their bytes:
// a digest is a flush of package record whose origin is the region and whose one receipt is a Note; a
// base is pieces of its own (Piece).
//
// Invariants: a Sum has every hit, removal and restored window that it was given, removals where they were among
// the hits of their key; what it has of a partition does not depend on how many nodes brought it. The Note says
// which place of the journal a digest reaches, to the flush.
//
// It is pure: no clock, no network, no goroutine.
package digest
