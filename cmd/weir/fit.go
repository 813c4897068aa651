package main

import "github.com/weir-counter/weir/journal"

// The least budgets there may be of the engine that a server has.
const (
	leastMemory      = 256 * 64 << 10
	leastLimitMemory = 64 << 10
)

// fitMemory makes budgets that nobody gave so small that their snapshots have room in
// --max-disk: who gives that alone wants to be kept to it. Budgets that were given are
// not changed: where they don't fit, the error names all that can be.
func (f *serveFlags) fitMemory() error {
	e := &f.engine
	most := journal.MaxMemory(f.journal.MaxBytes)
	if e.Memory+e.LimitMemory > most && !(f.memoryGiven && f.limitMemoryGiven) {
		switch {
		case f.memoryGiven:
			e.LimitMemory = max(most-e.Memory, leastLimitMemory)
		case f.limitMemoryGiven:
			e.Memory = max(most-e.LimitMemory, leastMemory)
		default: // as the defaults are: four to one
			e.Memory = max(most/5*4, leastMemory)
			e.LimitMemory = max(most-e.Memory, leastLimitMemory)
		}
		if f.journal.FitsMemory(e.Memory, e.LimitMemory) == nil {
			f.server.Logger.Info("the memory budgets are smaller than by default, so that snapshots have room in --max-disk",
				"memory", e.Memory, "limit_memory", e.LimitMemory, "max_disk", f.journal.MaxBytes)
		}
	}
	return f.journal.FitsMemory(e.Memory, e.LimitMemory)
}
