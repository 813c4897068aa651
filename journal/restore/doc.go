// Package restore writes a backup into a journal in use, on all nodes (Target): through the
// journal, as hits go. It remembers which backups were merged into a journal (Merges), and lets
// one node of a cluster restore at a time (Claims).
//
// Invariants: a backup that is damaged changes nothing; one that is merged twice counts once,
// however often a merge was cut off, because equal backups make equal batches under one origin;
// a second backup with the same hits is refused; no two nodes restore at once.
//
// Package backup reads the file and pours its contents into batches. Package journal
// makes the Target and writes its flushes; package offline restores into a directory that
// nobody uses.
package restore
