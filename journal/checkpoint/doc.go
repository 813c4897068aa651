// Package checkpoint is the snapshots of a journal in use: rounds in which each partition's
// state is stored, whose they are among many nodes, trimming of what every snapshot covers,
// pins that a backup holds, and the start that loads from them.
//
// Invariants: a partition has two slots, and the older one is written over, so that a
// damaged snapshot falls back to the one before; a snapshot is stored once its own hits came
// back from the journal; the journal is trimmed only below what all slots need, and by the
// node that holds the lease; while a backup has pinned the snapshots no round begins,
// unless the journal would run full.
//
// Package replica decides when and what (Rounds, Room), package stream stores; package
// journal hands over what it has cut, and answers for the lease and the holders.
package checkpoint
