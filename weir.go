// Package weir counts hits in rolling windows and limits requests, per key, in memory.
//
//   - A [Counter] counts one thing, an [Engine] many keys within a memory budget.
//   - A [Limiter] keeps one limit, a [KeyedLimit] of an Engine one for each key.
//
// All are safe for use by many goroutines, and take no lock for a hit that happens in the
// current second.
//
// A window is the half-open interval (at-w, at], with w from one second to a billion
// seconds. Times are cut to whole seconds: a hit at 12:00:00.9 lies in the second 12:00:00.
// Every answer is a [Count] with bounds: exact up to 300 s, with at most 1 % of the
// window in doubt beyond, and without an upper bound where the window reaches back beyond
// the retention.
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

	// MaxKeyBytes is the longest key, in bytes.
	MaxKeyBytes = engine.MaxKeyBytes

	// MaxHits is the largest n of one hit, some 10^12. Counts saturate at 2^64-1.
	MaxHits = engine.MaxHits

	// MaxWindow is the longest window and the longest retention: a billion seconds, 31.7 years.
	MaxWindow time.Duration = engine.MaxWindow

	// MaxPoints is the longest answer of Series, MaxList of Top and Keys.
	MaxPoints = engine.MaxPoints
	MaxList   = engine.MaxList

	// MaxLimitNameBytes is the longest name of a limit, in bytes.
	MaxLimitNameBytes = engine.MaxLimitNameBytes

	// MaxChecks is how many limits one request may have.
	MaxChecks = engine.MaxChecks

	// MaxReservation is how long a reservation lasts at most, MaxReservationID its longest
	// ID in bytes.
	MaxReservation   time.Duration = engine.MaxReservation
	MaxReservationID               = engine.MaxReservationID
)

// Answers to questions about keys; packages window and limit describe them.
type (
	Count    = window.Count    // lower <= hits <= upper, and an estimate
	Rate     = window.Rate     // a Count per second
	Point    = window.Point    // a Count at a time, of Series
	KeyCount = window.KeyCount // a key and its Count, of Top
	Limit    = limit.Limit     // at most so many requests in any interval
	Verdict  = limit.Verdict   // what a limit says about a request
	KeyUse   = limit.KeyUse    // what one key has used of its limit
)

// Outcome says what became of a hit.
type Outcome = window.Outcome

// The outcomes of a hit.
const (
	Refused = window.Refused // not counted: the error says why; nothing changed
	Counted = window.Counted // in its slot
	Late    = window.Late    // in its slot, but its key has seen a newer second
	TooLate = window.TooLate // refused: older than the retention; nothing changed
)

// Error is the error type of this package: what went wrong (Code), where (Field, the name of
// an argument or setting, may be empty) and what to do about it (Message).
type Error = engine.Error

// Code names one kind of failure. Codes are stable: programs may branch on them.
type Code = engine.Code

// The codes of this package.
const (
	CodeInvalidKey    = engine.CodeInvalidKey    // a key that is empty or longer than MaxKeyBytes
	CodeReservedKey   = engine.CodeReservedKey   // a hit or a delete on AllKeys
	CodeInvalidCount  = engine.CodeInvalidCount  // a number outside its range, such as a hit of n = 0
	CodeInvalidTime   = engine.CodeInvalidTime   // a time before 1970 or after 2514
	CodeTooLate       = engine.CodeTooLate       // a hit now, by a clock that has run back for longer than the retention
	CodeTooFarAhead   = engine.CodeTooFarAhead   // a hit later than the clock plus MaxAhead
	CodeInvalidWindow = engine.CodeInvalidWindow // a window that is not whole seconds within 1 s to 1e9 s
	CodeInvalidRange  = engine.CodeInvalidRange  // a series or list with impossible limits
	CodeInvalidLimit  = engine.CodeInvalidLimit  // a limit outside what it may be
	CodeInvalidConfig = engine.CodeInvalidConfig // a Config field outside what it may be
	CodeOverloaded    = engine.CodeOverloaded    // the memory for limits is full of limits in use
	CodeKeyReused     = engine.CodeKeyReused     // the ID of another reservation
	CodeClosed        = engine.CodeClosed        // the engine was closed
)
