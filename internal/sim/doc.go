// Package sim is a small world for simulation tests: a clock that is an event
// queue, a network that loses, repeats, reorders, delays and cuts, a replicated
// log, and registers that are replaced only by who knows what is in them. All of
// it is one goroutine and one seed: the same seed gives the same trace.
package sim
