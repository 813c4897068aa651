package node

import "github.com/weir-counter/weir/internal/units"

const (
	// The least budgets there may be of the engine that a node has.
	leastMemory      = 256 * 64 << 10
	leastLimitMemory = 64 << 10
)

// setBudgets gives the budgets that nobody gave their defaults, and makes those so small that
// snapshots have room in Journal.MaxBytes: who gives that alone wants to be kept to it. Budgets
// that were given are not changed: where they don't fit, the error names all that can be.
func (cfg *Config) setBudgets() {
	e := &cfg.Engine
	if e.OnceMemory == 0 {
		e.OnceMemory = min(defaultOnceMemory, cfg.room().receipts())
	}
	memoryGiven, limitsGiven := e.Memory != 0, e.LimitMemory != 0
	if !memoryGiven {
		e.Memory = defaultMemory
	}
	if !limitsGiven {
		e.LimitMemory = defaultLimitMemory
	}
	most := cfg.room().memory()
	if e.Memory+e.LimitMemory <= most {
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

// leastShare is the part of one budget that the other is at least, without a warning.
const leastShare = 16

// tellBudgets logs budgets that setBudgets made smaller. given is the Config before it.
func (cfg *Config) tellBudgets(given *Config) {
	e := &cfg.Engine
	if given.Engine.Memory == 0 && e.Memory < defaultMemory || given.Engine.LimitMemory == 0 && e.LimitMemory < defaultLimitMemory {
		cfg.Logger.Info("the memory budgets are smaller than by default, so that snapshots have room in --max-disk",
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
