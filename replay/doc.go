// Package replay reads access logs and counts what is in them: into an engine
// of its own, for a report, or into a running Weir server.
//
// A log goes through one pipeline, whatever its size:
//
//	reader -> chunks of 1 MiB, cut at line ends -> workers -> collector
//
// The reader decompresses and cuts. The workers parse and count keys, in any
// order: counts do not depend on the order of hits. A sender, when there is a
// server, stands before the collector and sends in the order of the log, so
// that hits arrive late only where the log has them late. What does depend on the
// order of lines (which line is late, which malformed line is one of the first
// five) is decided by the collector, which takes the chunks in the order of
// the log. So the report is the same for one worker and for many.
//
// Memory is bounded: the chunks come from a fixed pool, keys are held by an
// engine with a budget, and the totals per second are limited to MaxSeconds.
package replay
