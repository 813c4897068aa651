// Package shadow tells what limits would have done to the requests of a log: who would
// have been denied, when, how often, and which limit would have denied fewer.
//
// A log goes through the pipeline of package replay. Beside the parsing, a router finds out
// which policies are for a line's keys. Then one goroutine decides, in the order of the log,
// and another writes down what was decided:
//
//	line -> keys -> router: their limits -> judge: the engine -> clerk: records -> report
//
// The decisions are those of a server: an engine takes of all limits or of none, at the time
// of the line. Time does not go back: a line that is older than one before it, because servers
// write lines when requests are over, is decided at that newer time.
//
// A line that stands for n requests is n requests at one time.
//
// Memory is bounded: by Options.LimitMemory what keys have used of their limits, and by
// Options.Memory the records of the keys. When the records do not fit, those that say the
// least are dropped, and the report says what is no longer exact (see ledger). Totals per
// limit always are.
package shadow
