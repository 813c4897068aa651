// Package holders is which partitions each node of a cluster holds: as all know it (View), and
// how this one comes to hold its share (Keeper), which takes partitions over from snapshots and
// the journal, and releases those that as many others hold as should.
//
// Invariants: a partition is released only while enough other nodes hold it; one that is not
// taken whole is not taken; a node that does not have its own news back takes and releases
// nothing, since it does not know who is there.
//
// Package placement says where a partition belongs and has the registry of who holds it; package
// journal/replica does the hand-off itself; package peers gets what the journal lost. Package
// journal opens the View before it loads and runs the Keeper; package query asks it whom to ask.
package holders
