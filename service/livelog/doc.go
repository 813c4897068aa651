// Package livelog has hits and denials as they come, for people who look: of few all, and of many a sample that
// eyes can follow.
//
// Its invariants. While nobody looks a hit costs one load of a pointer. Who looks has a Tap: of what it may see, each hit (and, apart
// from them, each denial) of an interval has the same chance to be shown, which is told, and no interval shows more
// than PerTick of either, whatever comes. A tap keeps the newest Kept of either; there are MaxTaps at most, and one client has MaxOwn of them.
//
// Neighbours: package service notes what it counts and denies, and says what a caller may see; package server opens
// a tap for as long as a page is open.
package livelog
