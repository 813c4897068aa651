// Package resp is the door of Weir for clients of Redis: it speaks RESP2 and RESP3 (package
// protocol), and answers commands of Weir's own (HIT, COUNT, ALLOW, ...), CL.THROTTLE, and those commands of
// Redis that limits per fixed window are built from. docs/resp.md lists them.
//
// Invariants. One goroutine for each connection, and no more connections than the bound. Replies
// come in the order of the requests, and leave once no further whole request is there. What a client
// sends takes memory of Pools.Buffered beyond a small buffer. HIT and INCR of keys that are
// there allocate nothing. No place that one client may have all of is held while the door waits for it.
//
// Neighbours: package service answers all but counters that expire, which are kept in
// package counters, in memory and by this node alone.
package resp
