// Package backup is the file of a backup: written and read section by section, copied to this
// machine and checked as a whole (Spool), loaded into an engine, and poured into one
// with other partitions or another retention.
//
// Invariants: a file that is changed or cut anywhere is refused with an error that wraps
// record.ErrDamaged, and nothing of it counts; of equal contents Pour makes equal
// batches, so that a backup that is merged twice counts once; at most a group of partitions
// is in memory at a time.
//
// Package record has the snapshots and flushes in it, package replica audits what is
// loaded; package journal takes backups of a journal in use and restores them into one.
package backup
