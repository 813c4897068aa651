// Package body reads the bodies of HTTP requests: hits as lines, NDJSON or JSON, plain or
// compressed, and requests for decisions as JSON.
//
// The way of a hit: a Format says how the body is written (format.go), a splitter takes
// one record after the other from a feed (feed.go, elements.go), each record is parsed in
// place (text_hit.go, json_hit.go) and given to service.Hit (hits.go). Nothing on that way
// allocates per record. The way of a decision: AllowParser (allow_parse.go), without
// reflection.
//
// Invariants. A record that is not understood never loses its neighbours. Memory is
// bounded by the limit of a body and of a line, whatever the client sends; a body that
// inflates is cut at the same limit (decode.go). Every failure is a *service.Error.
//
// Neighbours: package server takes the places that a body needs while it arrives, and
// writes the answers; package service counts.
package body
