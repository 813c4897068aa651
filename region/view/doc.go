// Package view keeps the windows of other regions, an engine for each, by what the log has of them.
//
// Invariants: a region's engine has exactly its hits up to one digest; a base is built aside and then stands in
// place of the engine before it, so that a reader sees the one or the other; of a region that is gone nothing is kept. What
// others do with their limits is left out.
package view
