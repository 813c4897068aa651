// Package stream is the journal and the slots of snapshots as they are stored: two
// streams of JetStream, opened, made, written, read, trimmed; and the retries of a
// request that nobody answers for the moment.
//
// Invariants: a message was stored once its sequence is returned; streams of another
// journal, or made for other settings, are refused and not changed; a stream is made
// only where the caller says that it may be new; a slot is written over only if it has
// what the writer knows of; what a read passes over is seen by the sequences. A start
// reads from leaders, a follower from any replica.
//
// Package record has the bytes, package replica decides what to ask for next
// (ReadAhead) and when slots are written (Rounds); package journal has the loops.
package stream
