package node

import (
	"fmt"
	"math"
	"runtime/debug"

	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/journal"
)

const (
	// The least budgets there may be of the engine that a node has.
	leastMemory      = 256 * 64 << 10
	leastLimitMemory = 64 << 10
	leastOnceMemory  = 64 << 10

	// processFloor is what the process needs beside counters: the runtime, buffers
	// of requests, the connections.
	processFloor = 128 << 20
	// journalFloor is what the journal adds: hits that wait for it, the embedded
	// server, states on their way to a snapshot.
	journalFloor = 256 << 20
)

// receiptsOfDisk is the part of Journal.MaxBytes, as one of so many, that Engine.OnceMemory may
// be. Snapshots have two slots, each with the receipts of this node and twice as many of others
// and of earlier lives: six times OnceMemory, of the half of MaxBytes that is theirs. What
// FitsMemory leaves free of that half, with states at their largest, is a tenth.
const receiptsOfDisk = 120

// mostReceipts is the largest OnceMemory whose receipts have room in snapshots.
func (cfg *Config) mostReceipts() int64 { return cfg.Journal.MaxBytes / receiptsOfDisk }

// checkReceipts refuses receipts without room in snapshots, which then could not be stored, so
// that a full journal would never be trimmed.
func (cfg *Config) checkReceipts() error {
	if once, most := cfg.Engine.OnceMemory, cfg.mostReceipts(); once > most {
		return invalid("Engine.OnceMemory", fmt.Sprintf(
			"OnceMemory of %s does not fit into MaxBytes of %s: the snapshots have no room for so many receipts; choose OnceMemory (--idempotency-memory) of at most %s, or MaxBytes (--max-disk) of at least %s",
			units.FormatSize(once), units.FormatSize(cfg.Journal.MaxBytes), units.FormatSize(most), units.FormatSize(once*receiptsOfDisk)))
	}
	return nil
}

// setBudgets gives the budgets that nobody gave their defaults, and makes those so small that
// snapshots have room in Journal.MaxBytes: who gives that alone wants to be kept to it. Budgets
// that were given are not changed: where they don't fit, the error names all that can be.
func (cfg *Config) setBudgets() {
	e := &cfg.Engine
	if e.OnceMemory == 0 {
		e.OnceMemory = defaultOnceMemory
		if !cfg.Ephemeral {
			e.OnceMemory = min(e.OnceMemory, max(cfg.mostReceipts(), leastOnceMemory))
		}
	}
	memoryGiven, limitsGiven := e.Memory != 0, e.LimitMemory != 0
	if !memoryGiven {
		e.Memory = defaultMemory
	}
	if !limitsGiven {
		e.LimitMemory = defaultLimitMemory
	}
	most := journal.MaxMemory(cfg.Journal.MaxBytes)
	if cfg.Ephemeral || e.Memory+e.LimitMemory <= most {
		return
	}
	switch {
	case memoryGiven && limitsGiven:
	case memoryGiven:
		e.LimitMemory = max(most-e.Memory, leastLimitMemory)
	case limitsGiven:
		e.Memory = max(most-e.LimitMemory, leastMemory)
	default: // as the defaults are: four to one
		e.Memory = max(most/5*4, leastMemory)
		e.LimitMemory = max(most-e.Memory, leastLimitMemory)
	}
}

// tellBudgets logs budgets that setBudgets made smaller. given is the Config before it.
func (cfg *Config) tellBudgets(given *Config) {
	e := &cfg.Engine
	if given.Engine.Memory == 0 && e.Memory < defaultMemory || given.Engine.LimitMemory == 0 && e.LimitMemory < defaultLimitMemory {
		cfg.Logger.Info("the memory budgets are smaller than by default, so that snapshots have room in --max-disk",
			"memory", e.Memory, "limit_memory", e.LimitMemory, "max_disk", cfg.Journal.MaxBytes)
	}
}

// limitProcess makes the garbage collector work harder before the process
// outgrows its budgets by half and its floor, and says in the log what that comes to.
func (cfg *Config) limitProcess() {
	budget := cfg.Engine.Memory + cfg.Engine.LimitMemory + 3*cfg.Engine.OnceMemory
	if budget <= 0 || budget > math.MaxInt64/2 {
		return
	}
	floor := processFloor + cfg.Server.MaxBufferedBytes
	if !cfg.Ephemeral {
		floor += journalFloor
	}
	most := budget + budget/2 + floor
	debug.SetMemoryLimit(most)
	cfg.Logger.Info("memory", "counters", units.FormatSize(cfg.Engine.Memory), "limits", units.FormatSize(cfg.Engine.LimitMemory),
		"process", units.FormatSize(most))
}
