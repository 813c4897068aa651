// Package peers is what the nodes of a cluster tell and ask each other beside the journal, over
// plain NATS subjects: how far it goes (HighWater), how far each node is (Beats), whose
// replicas store (StoreWatch), what time it is (Clocks), which settings they have (Settings), messages that a replica lost and
// flushes that the journal did (Missing), and to flush at once, for fresh answers (Freshness).
//
// Invariants: no hit rests on what is told here. A message may be lost, come twice or late: the
// journal has the truth, and what is told only makes it known sooner, or says who is late. Each
// type has one subject and answers or listens until the connection closes; every
// queue is bounded, and what is beyond is dropped and asked again.
//
// Packages journal/replica and journal/record judge what is heard. Package journal makes these
// types when it joins and runs their loops (package node those of Settings); they do not import it. Questions about keys go
// another way: cluster/query, cluster/strict.
package peers
