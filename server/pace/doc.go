// Package pace keeps clients of an HTTP server from taking their time: a Body and a Writer must move
// with a Pace.
//
// Invariants. What the server itself takes does not count against a client's pace. While a body or
// an answer moves, its connection is one that waits for its client.
//
// Neighbours: package server makes them; service/conns has the connections.
package pace
