// Package client talks to a Weir server over HTTP: it sends hits in batches
// and asks for counts, rates, top keys and series.
//
// A request that meets a server which is too busy, or no server at all, is
// tried again after a pause that grows and is random. Beware of one thing: a
// batch of hits whose answer got lost on the way may have been counted, and is
// counted again when it is tried again. There is no idempotency key yet; who
// would rather lose hits than count them twice sets Options.Retries to -1.
package client
