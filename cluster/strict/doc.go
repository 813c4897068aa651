// Package strict decides limits for a whole cluster at one node, so that they are
// never exceeded.
//
// The keys are parted into lease.Groups groups, by their partitions. One node at a
// time holds a group's lease, and decides for its keys; any other sends its
// question there. What makes that exact:
//
//   - An admission is told only after it is in the journal, and if the lease is
//     still valid after that by the holder's own clock (package lease: which ends
//     before another can have it). One that is not told may still count: a limit
//     admits less for it, never more.
//   - A new holder first journals a flush of its own, and applies the journal up to
//     it. So it knows all that any holder before it has told of.
//   - Denials, and questions that take nothing, need neither.
//
// Two holders that overlap, because one of them was stopped and does not know the
// time, both count in the journal, but only one can tell.
//
// When the holder does not answer in time, nobody decides: what becomes of the
// request is the policy's choice.
package strict
