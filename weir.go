// Package weir counts hits in rolling windows and limits requests, per key, in memory.
//
//   - A [Counter] counts one thing, an [Engine] many keys within a memory budget.
//   - A [Limiter] keeps one limit, a [KeyedLimit] of an Engine one for each key.
//
// All are safe for use by many goroutines, and take no lock for a hit that happens in the current second.
//
// A window is the half-open interval (at-w, at], with w from one second to a billion seconds. Times are cut to whole
// seconds: a hit at 12:00:00.9 lies in the second 12:00:00. Every answer is a [Count] with bounds. Windows up to 300 s
// are exact. In longer ones at most 1 % of the window is in doubt. A window that reaches back beyond the retention has
// no upper bound.
//
// To keep counts through a crash, or to count on several nodes together, a program starts
// a whole server, package node, instead of an Engine.
package weir

import (
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/window"
)

const (
	// AllKeys is the reserved key under which every hit of an Engine is counted too.
	// It can be read, but neither hit nor deleted.
	AllKeys = engine.AllKeys

	MaxKeyBytes = engine.MaxKeyBytes // longest key, in bytes
	MaxHits     = engine.MaxHits     // largest n of one hit, some 10^12; counts saturate at 2^64-1
	MaxPoints   = engine.MaxPoints   // longest answer of Series
	MaxList     = engine.MaxList     // longest answer of Top and Keys
	MaxChecks   = engine.MaxChecks   // most limits of one request

	// MaxWindow is the longest window and the longest retention: a billion seconds, 31.7 years.
	MaxWindow time.Duration = engine.MaxWindow
)

// Config sets up an Engine; the zero Config is valid. Its fields for programs:
//
//   - Retention: how long hits are kept, 1 s to MaxWindow. 0: 30 days.
//   - Memory: bytes for keys; the coldest keys are evicted. 0: 1 GiB.
//   - LimitMemory: bytes for what keys have used of limits. 0: 256 MiB.
//   - Partitions: a power of two; each needs 64 KiB of Memory. 0: 256.
//   - MaxAhead: how far in the future a hit may be. 0: 5 s.
//   - Clock: WallClock, or EventClock for replayed logs.
//   - Now, Elapsed: clocks for tests.
type Config = engine.Config

// Clocks: now is the time of day, or the second of the newest hit.
const (
	WallClock  = engine.WallClock
	EventClock = engine.EventClock
)

type (
	Count    = window.Count    // lower <= hits <= upper, and an estimate
	Rate     = window.Rate     // a Count per second
	Point    = window.Point    // a Count at a time, of Series
	KeyCount = window.KeyCount // a key and its Count, of Top
	Limit    = limit.Limit     // at most so many requests in any interval
	Verdict  = limit.Verdict   // what a limit says about a request
	KeyUse   = limit.KeyUse    // what one key has used of its limit
	Stats    = engine.Figures  // what an Engine holds, counted and refused
	Error    = engine.Error    // why a call failed; its Code is one of package api

	// Reservation is admissions for what a request may need. Settle says later what it needed.
	Reservation = engine.Reservation
)

// Outcome says what became of a hit.
type Outcome = window.Outcome

const (
	Refused = window.Refused // not counted: the error says why; nothing changed
	Counted = window.Counted // in its slot
	Late    = window.Late    // in its slot, but its key has seen a newer second
	TooLate = window.TooLate // refused: older than the retention; nothing changed
)
