// Package counting is the commands of Redis that clients build limits per fixed window from: INCR, SET, EXPIRE and others, on counters
// that expire, of package counters.
//
// Invariant: a command allocates nothing for a counter that is there. A command is one step only while the session holds the
// shards of its keys, or is alone with one key: transactions and scripts hold them.
//
// Neighbours: package resp has the connection, who may run what, and transactions; package argument reads arguments.
package counting
