// Package writer makes history of the journal: it follows the journal in order, adds up hits by
// key and slot, and writes them in batches with the position that they reach (package store).
//
// Invariants:
//   - Every hit of the journal is in the rows once: who begins again goes on at the position that
//     is stored with them.
//   - It never slows hits. It reads what is on disk, on one goroutine, and while the database is
//     away it waits, and the journal keeps what it has not read as long as there is room (Needed).
//   - Of all writers of one journal one writes (store.Lease). The others look on.
//   - Its memory is bounded, whatever the journal has: it commits when it has maxRows, or maxText of their keys.
//
// What was trimmed before it was read is filled from snapshots (fill.go), and answers say what of
// it is in doubt.
package writer
