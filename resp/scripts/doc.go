// Package scripts knows the Lua scripts that libraries of limits send to Redis by the SHA-1 of their texts, and does
// natively what they do: there is no Lua. docs/resp.md lists libraries and versions.
//
// Invariants. A script of counters is one step for the keys that it names: others neither see nor change them meanwhile.
// Those of limits are decisions as all others. What a script replies is what its library reads.
//
// Neighbours: package resp has the commands EVAL, EVALSHA and SCRIPT; package counters has what scripts of counters
// count with. The tests of bench/doors run the libraries themselves, and so find a text that a new version has changed.
package scripts
