// Package wire is how Weir reads and writes bytes: numbers as varints, texts with their
// length before them, and frames with a checksum. What is stored (windows, states of
// partitions, flushes, snapshots) and what nodes send each other is made of these.
//
// Who reads may be given bytes that are cut, changed or made up. A Reader never panics,
// and takes no more memory than it was given bytes.
//
// It imports the standard library alone, so that the library's packages may use it.
package wire
