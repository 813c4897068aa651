// Package tail reads the journal in order, for readers that make something other than counts of it: history,
// and digests for other regions. There are two ways to read, each of which hands out everything once and can be stopped and
// begun again at a position that its owner keeps:
//
//   - Tail, for history, hands out batches, checked by the rules of a replica and by its code (package replica). Its position
//     has a few bytes for each partition and origin. What the journal has lost is told (Lost).
//   - Flushes, for digests, hands out whole flushes. Its position has some hundred bytes, since every digest has
//     one. What the journal has lost is told (Missing) before what comes after it, so that its owner asks the origin again, as a node does that
//     follows: other regions count no less than this one.
//
// Invariants of both:
//   - What is handed out between two positions does not depend on where the reader was stopped between.
//   - What came twice is handed out once.
//   - A flush counts as a whole or not at all; a position never stands in the middle of one.
//   - What is missing is told; so is, by a TrimmedError, what was trimmed before a Tail read it.
//
// Neither decides when it reads and what becomes of what it hands out: one goroutine of its owner calls it. They know no
// NATS: a Source is the stream (package stream) or a test's, and method ReadFlushes of package journal drives Flushes.
package tail
