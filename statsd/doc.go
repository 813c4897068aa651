// Package statsd is the door for StatsD, over UDP and TCP at one address: counters become hits.
//
//	name:value[:value...]|c[|@rate][|#tag:value,...][|Ttime]
//
// The way of a line: udp.go or tcp.go receives it, line.go splits it, count.go makes a number of it,
// template.go makes its key, and the service counts the hit. A line that is not counted is noted with its
// reason (reason.go), since a sender by UDP can't be told.
//
// A sampled counter stands for value / rate hits. Hits are whole numbers, so the rest is rounded up or down at
// random, with the chance that makes the mean true.
//
// Invariants. Neither protocol proves who sends: all hits are those of one identity (Config.Identity), or the server has no
// tokens. One goroutine reads UDP, and each connection has one; a receiver's memory does not grow.
package statsd
