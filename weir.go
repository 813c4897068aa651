// Package weir counts hits in rolling windows: how many in the last second, five
// minutes, week, per key. A [Counter] counts one thing, an [Engine] counts many
// keys within a memory budget. Both are safe for use by many goroutines, and
// take no lock for a hit that happens in the current second.
//
// A window is the half-open interval (at-w, at], w from one second to a billion
// seconds. Slots are a second wide, so time is cut to whole seconds: a hit at
// 12:00:00.9 lies in the second 12:00:00. Every answer is a [Count] with bounds
// that hold: exact up to 300 s, with at most 1 % of the window in doubt beyond, and
// with no upper bound where the window reaches back beyond the retention.
//
// To keep what is counted through a crash, and to count on several nodes together, a
// program starts package node, which is a whole server, in place of an engine.
package weir

import (
	"fmt"
	"time"

	"github.com/weir-counter/weir/window"
)

const (
	// AllKeys is the reserved key under which every hit of an engine is
	// counted too, but those of keys that begin with SeparatePrefix. It can be
	// read, but neither hit nor deleted.
	AllKeys = "*"

	// MaxKeyBytes is the longest key, in bytes.
	MaxKeyBytes = 512

	// MaxHits is the largest n of one hit, some 10^12, so that no few hits can
	// fill a counter for good: counts saturate at 2^64-1.
	MaxHits = 1 << 40

	// MaxWindow is the longest window and the longest retention: a billion
	// seconds, 31.7 years.
	MaxWindow = window.MaxSeconds * time.Second
)

// SeparatePrefix begins the keys that are counted separately: AllKeys has none of their
// hits, nor have Stats, and Top and Keys list them only where the prefix that is
// asked for begins with it. Package policy counts its decisions under such keys,
// and a decision is no hit of anybody's.
//
// It depends on the key alone, so that all nodes, snapshots and restarts agree.
// In all else they are keys as any others: they are journaled, audited, evicted.
const SeparatePrefix = "limit:"

// Count is the answer to "how many hits": Lower <= truth <= Upper, and
// Estimate between them. Truth is the hits that were taken. Where it may be any
// number from Lower up, HasUpper is false.
type Count = window.Count

// Rate is a Count per second of its window: Lower <= truth <= Upper, and Estimate
// between them.
type Rate = window.Rate

// Outcome says what became of a hit.
type Outcome = window.Outcome

// The outcomes of a hit.
const (
	Refused = window.Refused // not counted: the error says why; nothing changed
	Counted = window.Counted // in its slot
	Late    = window.Late    // in its slot, but its key has seen a newer second
	TooLate = window.TooLate // refused: older than the retention; nothing changed
	// ForHistory: older than the retention, and taken for the history of the server that the
	// engine is of. No window changed.
	ForHistory = window.ForHistory
)

// wholeSeconds turns the length of a window into seconds.
func wholeSeconds(field string, w time.Duration) (int64, error) {
	if seconds := w / time.Second; seconds*time.Second == w && 1 <= seconds && seconds <= window.MaxSeconds {
		return int64(seconds), nil
	}
	return 0, windowError(field, w)
}

func windowError(field string, w time.Duration) error {
	return &Error{CodeInvalidWindow, field, field + " of " + w.String() + ": must be whole seconds from 1s to 1000000000s"}
}

// checkHit refuses what no counter takes.
func checkHit(second int64, n uint64) error {
	if n-1 < MaxHits && uint64(second) <= window.MaxTime { // n = 0 and times before 1970 wrap around
		return nil
	}
	return hitError(second, n)
}

func hitError(second int64, n uint64) error {
	if n-1 >= MaxHits {
		return &Error{CodeInvalidCount, "n", fmt.Sprintf("n of %d: must be 1 to %d", n, uint64(MaxHits))}
	}
	return &Error{CodeInvalidTime, "at", "at is before 1970 or after 2514: check its unit, Unix times are in seconds"}
}
