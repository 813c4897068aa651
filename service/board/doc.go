// Package board has one computation for all pages that look at the same: a topic is computed again and
// again while somebody watches it, and every watcher gets the newest document.
//
// Its invariants. A topic has one goroutine, which ends with its last watcher. Nothing waits for a
// watcher: one that is slow misses documents in between, and gets the newest. All topics together
// take about one part in costShare of a core, however long their computations last, up to maxWait.
//
// It knows neither what is computed nor who looks. Neighbours: package views computes, package server
// sends.
package board
