// Package query answers questions whose keys other nodes hold.
//
// A node holds some of the partitions (replication.Engine.Holds). A question about what it
// holds is answered by its own engine, without any message. Any other is asked of a
// node that holds the key, by NATS request and reply:
//
//   - The first holder whose circuit breaker is closed is asked; where it is gone, does not answer
//     in time or no longer holds the partition, the next one. A node that did not
//     answer has its breaker open for a second: others are asked before it.
//   - Questions about all keys are put to as few nodes as hold all partitions
//     together, each about its set of them. A key is in one partition, so what they
//     say adds up exactly. Answers are whole or an error, never a part.
//   - Questions to one node leave together: two requests of a kind are under way at
//     most, and what comes meanwhile leaves with the next. Nothing waits for company
//     otherwise.
//   - Equal questions that are under way share one, and an answer is given again for
//     one flush interval. It carries the time up to which it is complete, so it stays
//     true.
//
// Every answer says up to when it is complete, and which nodes are late: the earliest
// and the union of all nodes that took part.
package query
