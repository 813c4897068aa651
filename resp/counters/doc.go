// Package counters keeps whole numbers by key, each until it expires: what clients of Redis
// build limits per fixed window from (INCR, then EXPIRE). It keeps them in memory and
// nowhere else. Pure: time is an argument, in milliseconds of a clock that the caller chooses.
//
// Invariants. Expired counters are never seen. Memory has a bound: when it is used up, new keys are
// refused, and none is removed before it expires, so that nobody gains a fresh allowance. One
// operation is one atomic step; View.Hold makes several so.
//
// Neighbours: package resp has one Table for all its clients.
package counters
