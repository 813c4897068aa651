// Package warnings calls an address of the operator's when a key comes to the warning of its policy (warn), once for a key and
// window.
//
// Invariant: a decision waits for nobody. It puts what is new into a queue of fixed size, or counts that there was no place; one goroutine
// sends. Memory is bounded: Kept keys that were told, Waiting warnings that wait. Nothing is on disk, so a crash loses what waits.
package warnings
