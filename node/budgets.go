package node

import (
	"fmt"
	"math"
	"os"
	"sync/atomic"

	internaldurable "github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/region"
	"github.com/weir-counter/weir/internal/settings"
	"github.com/weir-counter/weir/internal/units"
)

const (
	// heapFloor is what the runtime may have in addition to a quarter more than counters. With less, a small budget costs
	// far more processor time: with 16 MiB here, a new key of a flood takes 2.3 µs instead of 1.2, to save some 10 MiB.
	heapFloor = 72 << 20

	// outside is what the process takes in addition: 40 MiB of the program's pages, SQLite's memory, and allocations during
	// a collection.
	outside = 72 << 20

	// mostFloor is heapFloor where all that clients may bring is there.
	mostFloor = 128 << 20
)

// memoryNeeds reports what the budgets of a node come to.
type memoryNeeds struct {
	cfg     *Config
	regions atomic.Int64 // other regions that have a budget
}

// setRegions sets how many other regions have a budget of their own. It logs and reports what the process comes to with them.
func (m *memoryNeeds) setRegions(regions int) {
	m.regions.Store(int64(regions))
	fields := []any{"counters", units.FormatSize(m.cfg.Engine.Memory), "limits", units.FormatSize(m.cfg.Engine.LimitMemory)}
	if regions > 0 {
		fields = append(fields, "other_regions", regions)
	}
	m.cfg.Logger.Info("memory", append(fields, "usual", units.FormatSize(m.usual()+outside), "process", units.FormatSize(m.most()))...)
	if m.cfg.OnMemory != nil {
		m.cfg.OnMemory(m.usual(), m.most())
	}
}

// counters are the budgets of counters: the own one, and one for each other region.
func (m *memoryNeeds) counters() int64 {
	return m.cfg.Engine.Memory + m.regions.Load()*region.Config{Memory: m.cfg.Regions.Memory}.WithDefaults().Memory
}

// usual is what the Go runtime needs while neither limits nor receipts are in use.
func (m *memoryNeeds) usual() int64 { return m.counters()/4*5 + heapFloor }

// most is what the process takes at most when all budgets are used.
func (m *memoryNeeds) most() int64 {
	budget := m.counters() + m.cfg.Engine.LimitMemory + 3*m.cfg.Engine.OnceMemory
	if budget <= 0 || budget > math.MaxInt64/2 {
		return math.MaxInt64
	}
	most := budget + budget/2 + mostFloor + m.cfg.Service.MaxBufferedBytes
	if !m.cfg.Ephemeral {
		most += journalFloor
	}
	if m.cfg.RESP.Addr != "" || m.cfg.clustered() {
		most += m.cfg.Engine.LimitMemory / 4 // of counters
	}
	return most
}

const (
	// The least budgets there may be of the engine that a node has.
	leastMemory      = 256 * 64 << 10
	leastLimitMemory = 64 << 10
	leastOnceMemory  = 64 << 10
)

// setBudgets sets budgets that are zero to their defaults, or to less if their snapshots would not fit into
// Journal.MaxBytes. It does not change other budgets: if they don't fit, validateJournal says what would.
func (cfg *Config) setBudgets() {
	e := &cfg.Engine
	if e.OnceMemory == 0 {
		e.OnceMemory = defaultOnceMemory
		if !cfg.Ephemeral {
			e.OnceMemory = min(e.OnceMemory, max(internaldurable.MaxReceipts(cfg.Journal.MaxBytes), leastOnceMemory))
		}
	}
	memoryGiven, limitsGiven := e.Memory != 0, e.LimitMemory != 0
	if !memoryGiven {
		e.Memory = defaultMemory
	}
	if !limitsGiven {
		e.LimitMemory = defaultLimitMemory
	}
	most := internaldurable.MaxMemory(cfg.Journal.MaxBytes)
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

// validateMemory refuses budgets that a machine with so many bytes can't have; 0: it is not known how many those are.
func (cfg *Config) validateMemory(machine int64) error {
	const defaults = defaultMemory + defaultLimitMemory
	e := &cfg.Engine
	if most := max(machine, defaults); machine > 0 && (e.Memory > most || e.LimitMemory > most-e.Memory) {
		return settings.Invalid("Engine.Memory", fmt.Sprintf("Memory (--memory) of %s and LimitMemory (--limit-memory) of %s are more than the %s that this machine has: lower them",
			units.FormatSize(e.Memory), units.FormatSize(e.LimitMemory), units.FormatSize(machine)))
	}
	return nil
}

// machineMemory returns the bytes of memory of this machine where /proc/meminfo has them, else 0.
func machineMemory() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	var kib int64
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kib); err != nil {
		return 0
	}
	return kib << 10
}

// leastShare is the part of one budget that the other is at least, without a warning.
const leastShare = 16

// tellBudgets logs budgets that setBudgets made smaller. given is the Config before that.
func (cfg *Config) tellBudgets(given *Config) {
	e := &cfg.Engine
	if given.Engine.Memory == 0 && e.Memory < defaultMemory || given.Engine.LimitMemory == 0 && e.LimitMemory < defaultLimitMemory {
		cfg.Logger.Info("the memory budgets are smaller than by default, so that snapshots fit into --max-disk",
			"memory", units.FormatSize(e.Memory), "limit_memory", units.FormatSize(e.LimitMemory), "max_disk", units.FormatSize(cfg.Journal.MaxBytes))
	}
	disk := units.FormatSize(cfg.Journal.MaxBytes)
	switch {
	case given.Engine.LimitMemory == 0 && e.LimitMemory < min(defaultLimitMemory, e.Memory/leastShare):
		cfg.Logger.Warn("--memory leaves hardly any of --max-disk for the memory of limits: decisions about more keys than fit are refused. Raise --max-disk, lower --memory, or set --limit-memory too",
			"memory", units.FormatSize(e.Memory), "limit_memory", units.FormatSize(e.LimitMemory), "max_disk", disk)
	case given.Engine.Memory == 0 && e.Memory < min(defaultMemory, e.LimitMemory/leastShare):
		cfg.Logger.Warn("--limit-memory leaves hardly any of --max-disk for the memory of counters: keys are evicted soon. Raise --max-disk, lower --limit-memory, or set --memory too",
			"memory", units.FormatSize(e.Memory), "limit_memory", units.FormatSize(e.LimitMemory), "max_disk", disk)
	}
}
