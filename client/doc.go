// Package client talks to a Weir server over HTTP: it sends hits in batches
// and asks for counts, rates, top keys and series. It may know several nodes of a cluster.
//
// A request that meets a server which is too busy, or no server at all, is
// tried again after a pause that grows and is random. A batch of hits whose
// answer got lost on the way may have been counted: it carries an idempotency
// key, the same in each attempt, by which the server counts it once, within ten
// minutes and also across a restart of a server that is not ephemeral.
//
// Send is for hits that are there already, as of a log. A program that counts what happens gives its hits to a
// Sender, which sums them up by key and second and sends them every 100 ms.
//
// A decision of limits (Allow) is asked once: see NoDecisionError for what a caller does
// when there is none.
package client
