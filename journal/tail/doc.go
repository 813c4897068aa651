// Package tail reads the journal in order, for who makes something else of it than counts:
// history, digests for other regions. It hands out each batch once, with those of all origins
// in the order of the journal, and says where it stands in bytes that its caller keeps.
//
// Invariants:
//   - A batch is handed out once between a position and the next, whatever came twice: the
//     rules are those of a replica (package replica), and the code is the same.
//   - A flush counts as a whole or not at all; a position never stands in the middle of one.
//   - What is missing is told (Lost), and what was trimmed before it was read (ErrTrimmed).
//
// It decides nothing of when it reads and what becomes of it: one goroutine of its owner calls
// it. It knows no NATS: a Source is the stream (package stream), or a test's.
package tail
