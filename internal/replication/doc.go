// Package replication is the side of a weir.Engine that a journal and a cluster use: what was
// counted here and is not stored yet (Engine.Cut), what was stored or counted elsewhere
// (Engine.Apply and its like), and which partitions the engine holds. Of(engine) has it. A
// program that counts and limits needs none of it.
//
// A partition is a fixed share of the key space. All its hits go through cuts, each in one of
// them, in the order of the journal; so nodes that apply the same cuts have the same counts.
//
// The types here are data: they know no engine, clock or lock. Package weir implements Engine.
package replication
