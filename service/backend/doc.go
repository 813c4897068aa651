// Package backend is what a service needs of the journal that keeps its hits and of the nodes that count
// together with it: two interfaces, what they answer with, and the figures of both.
//
// Invariant: no method waits longer than its context, but for those that say how long. Whoever puts
// a node together (package node) adapts the real ones; package service knows no other, and tests
// bring their own.
package backend
