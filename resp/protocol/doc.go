// Package protocol reads requests and writes replies of RESP, the protocol of Redis, in its
// versions 2 and 3. A request is an array of bulk strings, or a line of words (an inline
// command, as people type it). The standard library alone.
//
// Invariants. A Reader holds one buffer, and its requests are views of it: nothing is
// allocated for a request that fits the buffer. Whatever a client sends is bounded by Limits
// before memory is taken for it, and what a client announces takes no memory before it
// arrives. A request is read once, however many pieces it comes in. A Writer keeps replies
// until Flush, or until they are many.
//
// Neighbours: package resp has a Reader and a Writer for each connection.
package protocol
