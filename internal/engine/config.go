// Package engine keeps keys, their windows and what they have used of limits in memory. Package weir shows library
// users the part that a program needs; a server also journals, replicates and shares what is here.
package engine

import (
	"cmp"
	"fmt"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/admission"
	"github.com/weir-counter/weir/internal/engine/keyspace"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/window"
)

const (
	// AllKeys is the reserved key under which the engine counts every hit, except hits of keys that begin with
	// SeparatePrefix. It can be read, but neither hit nor deleted.
	AllKeys = "*"

	// MaxKeyBytes is the longest key, in bytes.
	MaxKeyBytes = keyspace.MaxKeyBytes

	// MaxHits is the largest n of one hit, some 10^12, so that no few hits can
	// fill a counter for good: counts saturate at 2^64-1.
	MaxHits = 1 << 40

	// MaxWindow is the longest window and the longest retention: a billion seconds, 31.7 years.
	MaxWindow = window.MaxSeconds * time.Second
)

// SeparatePrefix begins the keys that are counted separately. AllKeys and Stats exclude their hits. Top and Keys list
// them only if the requested prefix begins with SeparatePrefix. Package policy counts its decisions under such keys,
// because a decision is not a hit of a user's key.
//
// The prefix alone decides, so all nodes, snapshots and restarts agree. In all else these keys are like any others:
// they are journaled, audited and evicted.
const SeparatePrefix = "limit:"

// SampledPrefix begins the keys of what sampling added to hits (HitSampled): of a key, the prefix and the key; of all keys, the
// prefix alone. Counts of the keys widen their bounds by these.
const SampledPrefix = keyspace.SampledPrefix

// The answers and limits of packages window and limit.
type (
	Count    = window.Count
	Rate     = window.Rate
	Point    = window.Point
	KeyCount = window.KeyCount
	Limit    = limit.Limit
	Verdict  = limit.Verdict
	KeyUse   = limit.KeyUse
)

// Limits of keys, and requests that must pass several of them: see package admission.
type (
	KeyedLimit   = admission.KeyedLimit
	Check        = admission.Check
	Reservation  = admission.Reservation
	ReservedPart = admission.Part
)

// Bounds of package admission.
const (
	MaxChecks         = admission.MaxChecks
	MaxLimitNameBytes = admission.MaxNameBytes
	MaxReservationID  = admission.MaxReservationID
	MaxReservation    = admission.MaxReservation
	MaxReservations   = admission.MaxReservations
	MaxGrants         = admission.MaxGrants
	MaxBan            = admission.MaxBan
	MaxBans           = admission.MaxBans
)

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
	return &Error{Code: api.CodeInvalidWindow, Field: field, Message: field + " of " + w.String() + ": must be whole seconds from 1s to 1000000000s (31.7 years)"}
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
		return &Error{Code: api.CodeInvalidCount, Field: "n", Message: fmt.Sprintf("n of %d: must be 1 to %d", n, uint64(MaxHits))}
	}
	return &Error{Code: api.CodeInvalidTime, Field: "at", Message: "at is before 1970 or after 2514: check its unit, Unix times are in seconds"}
}

// Config sets up an Engine. The zero Config is valid: each field says what its zero means.
type Config struct {
	// Partitions is the number of shares of the key space, a power of two from 1 to 65536. 0: 256.
	Partitions int

	// Retention is how long hits are kept at least: whole seconds, 1 s to MaxWindow. Less than 511 s counts as 511 s,
	// so that windows of 300 s are always exact. 0: 30 days.
	Retention time.Duration

	// Memory is the budget for keys and their windows, in bytes, at least 64 KiB
	// for each partition. When it is full, the coldest keys are evicted. 0: 1 GiB.
	Memory int64

	// LimitMemory is the budget for what keys have used of their limits, in bytes, at least 64 KiB. When it is full of
	// limits in use, requests of further keys are refused. 0: 256 MiB.
	LimitMemory int64

	// OnceMemory is the budget in bytes for the receipts of Once that this engine gives within ten minutes, at least 64
	// KiB. A receipt takes 160 bytes, its key and its answer. Receipts of other nodes may take twice as much. 0: 64
	// MiB, some 400 requests a second.
	OnceMemory int64

	// Clock says what "now" is.
	Clock Clock

	// MaxAhead is how far after the wall clock a hit may be, with either Clock;
	// later ones are refused. Less than the retention. 0: 5 s.
	MaxAhead time.Duration

	// Gather keeps every new hit for a journal, which takes it by Cut. Package node sets it.
	Gather bool

	// MaxWaiting is how many deltas and filled live cells may wait for Cut, one for each key and
	// second that was hit. Hits beyond it are refused with api.CodeOverloaded. 0: 4 million, some 128 MiB.
	MaxWaiting int64

	// Now is the wall clock, and the clock of limits, for tests. nil: the system's.
	Now func() time.Time

	// Elapsed is the clock of limits, for tests: the time since any beginning. It never runs
	// back, whatever Now does. nil: by Now, or the system's monotonic clock.
	Elapsed func() time.Duration
}

// Clock says what an engine means by "now".
type Clock uint8

const (
	// WallClock: now is the time of day.
	WallClock Clock = iota
	// EventClock: now is the second of the newest hit, for replaying logs and for tests.
	EventClock
)

const (
	defaultPartitions = 256
	maxPartitions     = 1 << 16
	defaultMemory     = 1 << 30
	partitionMemory   = 64 << 10 // of the budget, at least
	defaultLimitBytes = 256 << 20
	minLimitBytes     = 64 << 10
	defaultOnceBytes  = 64 << 20
	defaultMaxAhead   = 5 * time.Second
	defaultMaxWaiting = 4 << 20
)

// Validate returns an *Error of api.CodeInvalidConfig that names the first field outside what
// it may be. New does the same: this is for code that opens other things before it.
func (cfg Config) Validate() error { return cfg.withDefaults().validate() }

func (cfg Config) withDefaults() Config {
	cfg.Partitions = cmp.Or(cfg.Partitions, defaultPartitions)
	cfg.Retention = cmp.Or(cfg.Retention, window.DefaultRetention*time.Second)
	if cfg.Retention > 0 && cfg.Retention < window.MinRetention*time.Second && cfg.Retention%time.Second == 0 {
		cfg.Retention = window.MinRetention * time.Second
	}
	cfg.Memory = cmp.Or(cfg.Memory, defaultMemory)
	cfg.LimitMemory = cmp.Or(cfg.LimitMemory, defaultLimitBytes)
	cfg.OnceMemory = cmp.Or(cfg.OnceMemory, defaultOnceBytes)
	cfg.MaxWaiting = cmp.Or(cfg.MaxWaiting, defaultMaxWaiting)
	cfg.MaxAhead = cmp.Or(cfg.MaxAhead, defaultMaxAhead)
	return cfg
}

func (cfg Config) validate() error {
	bad := func(field string, value any, must string) error {
		return &Error{Code: api.CodeInvalidConfig, Field: field, Message: fmt.Sprintf("%s of %v: must be %s", field, value, must)}
	}
	if _, err := wholeSeconds("Retention", cfg.Retention); err != nil {
		return bad("Retention", cfg.Retention, "whole seconds from 1s to 1000000000s (31.7 years)")
	}
	switch p := cfg.Partitions; {
	case p < 1 || p > maxPartitions || p&(p-1) != 0:
		return bad("Partitions", p, "a power of two from 1 to 65536")
	case cfg.Memory < int64(cfg.Partitions)*partitionMemory:
		return bad("Memory", units.FormatSize(cfg.Memory), fmt.Sprintf("at least %s (64KiB for each partition)", units.FormatSize(int64(cfg.Partitions)*partitionMemory)))
	case cfg.LimitMemory < minLimitBytes:
		return bad("LimitMemory", units.FormatSize(cfg.LimitMemory), "at least 64KiB")
	case cfg.OnceMemory < minLimitBytes:
		return bad("OnceMemory", units.FormatSize(cfg.OnceMemory), "at least 64KiB")
	case cfg.Clock > EventClock:
		return bad("Clock", cfg.Clock, "WallClock or EventClock")
	case cfg.MaxWaiting < 1:
		return bad("MaxWaiting", cfg.MaxWaiting, "at least 1 delta")
	case cfg.MaxAhead < 0 || cfg.MaxAhead >= cfg.Retention:
		return bad("MaxAhead", cfg.MaxAhead, "from 0s to less than the retention")
	}
	return nil
}

// Error is the one error type of this package: see keyspace.Error.
type Error = keyspace.Error

var errNotHeld = &Error{Code: api.CodeNotHeld, Field: "key", Message: "the key's partition is on other nodes, and none of them could be reached: retry in a second"}

// ifHeld is errNotHeld for an answer about partitions that are not held.
func ifHeld(held bool) error {
	if !held {
		return errNotHeld
	}
	return nil
}
