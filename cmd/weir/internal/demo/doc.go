// Package demo makes the traffic of a shop that does not exist, so that who tries Weir has something to look at: a day's
// rhythm, bursts of single pages, and clients of which one asks too much.
//
// Its invariant: what it makes for the past and what it makes now follow the same rates. It hits the engine as a
// program would that embeds Weir, and asks for decisions over HTTP, as others do.
package demo
