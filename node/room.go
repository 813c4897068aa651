package node

import (
	"math"

	"github.com/weir-counter/weir/journal"
)

// room is what the budgets of memory must fit into: a data directory (diskRoom), or
// nothing (noDisk).
type room interface {
	memory() int64   // most of counters and limits together, bytes
	receipts() int64 // most of receipts of idempotency keys, bytes
	process() int64  // what the process needs for it beside the budgets, bytes
}

func (cfg *Config) room() room {
	if cfg.Ephemeral {
		return noDisk{}
	}
	return diskRoom(cfg.Journal.MaxBytes)
}

// diskRoom is journal.Config.MaxBytes: snapshots must have room in it.
type diskRoom int64

func (r diskRoom) memory() int64 { return journal.MaxMemory(int64(r)) }

func (r diskRoom) receipts() int64 { return max(journal.MaxReceipts(int64(r)), leastOnceMemory) }

// leastOnceMemory is the least budget of receipts that an engine takes.
const leastOnceMemory = 64 << 10

// journalFloor is what a journal adds to a process: hits that wait for it, the embedded
// server, states on their way to a snapshot.
const journalFloor = 256 << 20

func (diskRoom) process() int64 { return journalFloor }

type noDisk struct{}

func (noDisk) memory() int64 { return math.MaxInt64 }

func (noDisk) receipts() int64 { return math.MaxInt64 }

func (noDisk) process() int64 { return 0 }
