// Package journal makes an engine durable: every flush interval its new hits
// leave as batches into a stream of an embedded NATS JetStream server, which
// syncs them to disk before it acknowledges. A restart loads the newest good
// snapshot of each partition and replays the batches after it.
//
// The path of a hit here: Cut (package weir) -> flush.go (bytes) -> flusher.go
// (publish, acknowledge) -> stream; back: restore.go (snapshot, replay, audit)
// -> Apply. docs/format.md draws the bytes.
package journal
