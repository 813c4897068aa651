// Package conns keeps clients from using up the connections of a door: a Listener has a bound, and
// closes the connection that waits longest for its client, of the client with most, to let
// another in.
//
// Invariants. There are never more connections open than the bound and the one that
// is about to be closed. A connection that the server works for is closed last.
//
// Neighbours: doors make them, one for each address; service.Caller tells clients apart.
package conns
