// Package store keeps exact totals per key and slot of time, and per day, in a SQL database:
// SQLite, Postgres, or MariaDB and MySQL. docs/history.md draws the tables, which are public.
//
// Invariants:
//   - Rows and the position of the journal that they have change in one transaction (Commit), so
//     a batch of the journal is in the rows exactly once, whatever is killed when.
//   - A transaction counts only under the newest lease of its journal: one writer that was
//     overtaken changes nothing any more (ErrFenced).
//   - Rows are apart by origin, which is one journal, or one filling of it: no two
//     writers ever touch a row, and reads add up.
//   - A row says by how much it may be too low (doubt, mostly 0), and a gap which time may lack
//     hits: nothing is said to be exact that is not.
//
// It knows SQL and no journal: package writer decides what is written.
package store
