// Package journal makes an engine durable: every flush interval its new hits
// leave as batches into a stream of an embedded NATS JetStream server, which
// syncs them to disk before it acknowledges. A restart loads the newest good
// snapshot of each partition and replays the batches after it. Among many nodes it
// follows the flushes of all, and takes and releases partitions.
//
// This package has the goroutines and the connection: open, the flush loop, the follow
// loop, close, and what to say of them. What it decides is in package replica, which is
// pure; the bytes are in record, the streams in stream, the files in datadir, rounds
// of snapshots in checkpoint, who waits for a flush in groupcommit, backups in backup and
// restore, directories that become others in offline. What nodes tell each other is in the rooms of
// cluster/: peers, holders, member (others.go). None of them imports it.
//
// The path of a hit here: replica.Cut -> record (bytes) -> flusher.go (publish,
// acknowledge) -> stream; back: checkpoint (snapshot, replay), follow.go -> replica
// (audit) -> the engine. docs/format.md draws the bytes.
//
// Invariants: a hit is acknowledged as durable after its flush is on disk; an epoch is on
// disk before the first batch of it; the last flushes are written before the server
// stops; nothing that is acknowledged is dropped, also while the disk is full.
package journal
