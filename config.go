package weir

import (
	"fmt"
	"time"

	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/window"
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

	// OnceMemory is the budget for the receipts of Once that this engine gives within
	// OnceSeconds, in bytes, at least 64 KiB: 160 for each, its key and its answer. Those
	// of other nodes, and of earlier lives, have twice as much beside it. 0: 64 MiB, some
	// 400 requests a second.
	OnceMemory int64

	// Clock says what "now" is.
	Clock Clock

	// MaxAhead is how far after the wall clock a hit may be, with either Clock;
	// later ones are refused. Less than the retention. 0: 5 s.
	MaxAhead time.Duration

	// Gather makes the engine keep every new hit for a journal as well, which
	// takes it by Cut. Without a journal that does, leave it false.
	Gather bool

	// MaxWaiting is how many deltas and filled live cells may wait for Cut, one
	// for each key and second that was hit. When there are more, hits
	// are refused with CodeOverloaded until Cut was called. 0: 4 million, some
	// 128 MiB.
	MaxWaiting int64

	// Now is the wall clock, in place of the system's, and the clock of limits, in
	// place of a monotonic one. nil: the system's.
	Now func() time.Time

	// Elapsed is the clock of limits, in place of the system's monotonic one: the time
	// since any beginning, which never runs back, whatever Now does. nil: by Now, or the
	// system's.
	Elapsed func() time.Duration
}

// Clock says what an engine means by "now".
type Clock uint8

const (
	// WallClock: now is the time of day.
	WallClock Clock = iota
	// EventClock: now is the second of the newest hit, for replaying logs and
	// for tests.
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

// Validate returns an *Error of CodeInvalidConfig that names the first field outside what
// it may be. New does the same: this is for code that opens other things before it.
func (cfg Config) Validate() error { return cfg.withDefaults().validate() }

func (cfg Config) withDefaults() Config {
	if cfg.Partitions == 0 {
		cfg.Partitions = defaultPartitions
	}
	if cfg.Retention == 0 {
		cfg.Retention = window.DefaultRetention * time.Second
	}
	if cfg.Retention > 0 && cfg.Retention < window.MinRetention*time.Second && cfg.Retention%time.Second == 0 {
		cfg.Retention = window.MinRetention * time.Second
	}
	if cfg.Memory == 0 {
		cfg.Memory = defaultMemory
	}
	if cfg.LimitMemory == 0 {
		cfg.LimitMemory = defaultLimitBytes
	}
	if cfg.OnceMemory == 0 {
		cfg.OnceMemory = defaultOnceBytes
	}
	if cfg.MaxWaiting == 0 {
		cfg.MaxWaiting = defaultMaxWaiting
	}
	if cfg.MaxAhead == 0 {
		cfg.MaxAhead = defaultMaxAhead
	}
	return cfg
}

func (cfg Config) validate() error {
	bad := func(field string, value any, must string) error {
		return &Error{CodeInvalidConfig, field, fmt.Sprintf("%s of %v: must be %s", field, value, must)}
	}
	if _, err := wholeSeconds("Retention", cfg.Retention); err != nil {
		return bad("Retention", cfg.Retention, "whole seconds from 1s to 1000000000s")
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
