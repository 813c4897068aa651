// Package pools bounds what may be under way at once at all doors together: requests of each kind,
// and bytes of large bodies.
//
// Invariants: a pool never has more in use than its bound, and one caller no more than its share
// of a pool that lasts as long as a client likes, so that whoever fills one leaves the others their
// answers; who finds no room is refused at once and counted, never queued.
//
// Package caller tells clients apart. A door takes a place before the work and gives it
// back when the client has its answer; package service makes the pools of its settings.
package pools
