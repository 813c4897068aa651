// Package node is a whole Weir in one type: the engine that counts, the journal that keeps
// its hits, the other nodes of a cluster, the policies of limits, the service that answers,
// and the doors that clients reach it by. Start starts them in order, Close stops them in the opposite one: what was opened
// first is closed last, so that every hit that was answered is in the journal.
//
// The command weir serve is flags around it; tests, examples and programs that embed a Weir
// start the same type. Nothing else wires the packages together: service and journal know
// each other by the small interfaces of service, which this package adapts (journal.go,
// cluster.go, route.go).
//
// Whether hits are kept in memory, in a journal of this node alone, or in one of many nodes, is
// asked once: each is a mode (mode.go).
package node
