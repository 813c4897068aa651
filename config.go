package weir

import (
	"time"

	"github.com/weir-counter/weir/internal/engine"
)

// Config sets up an Engine. The zero Config is valid: each field says what its
// zero means.
type Config struct {
	// Partitions is the number of shares of the key space, a power of two from
	// 1 to 65536. 0: 256.
	Partitions int

	// Retention is how long hits are kept at least: whole seconds, 1 s to
	// MaxWindow. Less than 511 s counts as 511 s, so that windows of 300 s are
	// always exact. 0: 30 days.
	Retention time.Duration

	// Memory is the budget for keys and their windows, in bytes, at least 64 KiB
	// for each partition. When it is full, the coldest keys are evicted. 0: 1 GiB.
	Memory int64

	// LimitMemory is the budget for what keys have used of their limits, in bytes,
	// at least 64 KiB. When it is full of limits in use, requests of further keys
	// are refused. 0: 256 MiB.
	LimitMemory int64

	// OnceMemory is the budget of a server (package node) for the answers to requests with an
	// idempotency key of the last ten minutes, in bytes, at least 64 KiB. Answers of other
	// nodes may take twice as much. 0: 64 MiB, some 400 requests a second.
	OnceMemory int64

	// Clock says what "now" is.
	Clock Clock

	// MaxAhead is how far after the wall clock a hit may be, with either Clock;
	// later ones are refused. Less than the retention. 0: 5 s.
	MaxAhead time.Duration

	// Gather keeps every new hit for the journal of a server. Package node sets it; leave it false.
	Gather bool

	// MaxWaiting is how many hits, summed by key and second, may wait for the journal of a
	// server; hits beyond it are refused with CodeOverloaded. 0: 4 million, some 128 MiB.
	MaxWaiting int64

	// Now is the wall clock, and the clock of limits, for tests. nil: the system's.
	Now func() time.Time

	// Elapsed is the clock of limits, for tests: the time since any beginning. It never runs
	// back, whatever Now does. nil: by Now, or the system's monotonic clock.
	Elapsed func() time.Duration
}

// Clock says what an engine means by "now".
type Clock = engine.Clock

const (
	// WallClock: now is the time of day.
	WallClock = engine.WallClock
	// EventClock: now is the second of the newest hit, for replaying logs and for tests.
	EventClock = engine.EventClock
)

// Stats are an engine's figures since it was made. Hits are weighted by their n.
type Stats struct {
	Hits        uint64 // counted, late ones included
	Late        uint64 // counted though their key had seen a newer second
	TooLate     uint64 // refused: older than the retention
	TooFarAhead uint64 // refused: later than the clock plus MaxAhead

	Keys        int
	EvictedKeys uint64 // left because the memory budget was full
	EvictedHits uint64 // that the evicted keys had; AllKeys still counts them
	ExpiredKeys uint64 // left because their newest hit was older than the retention

	LimitStates  int    // keys with limits in use, counted for each limit, and some that are no longer
	LimitBytes   int64  // memory of LimitStates
	LimitBudget  int64  // Config.LimitMemory
	LimitRefused uint64 // requests whose limit found no memory

	Bytes        int64     // of tables, keys and windows
	MemoryBudget int64     // Config.Memory
	Partitions   int       // Config.Partitions
	Newest       time.Time // second of the newest hit; the zero Time before the first
}
