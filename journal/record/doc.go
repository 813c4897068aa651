// Package record is the bytes of the journal: the flush in its parts, the batches
// of a flush, the snapshot of a partition and the message that ends it, and the
// findings of damage in them. docs/format.md draws the bytes.
//
// Invariants: what an Encoder writes, DecodePart reads, whatever the number of
// parts; a changed or cut byte is found by a checksum, and the error wraps
// ErrDamaged; a version that this build does not know is refused by its number, and
// is not damage. Batches of a part that was decoded are sound: each entry can be read.
//
// It knows no clock, no network and no disk. Package replica decides with these
// records, package stream stores them.
package record
