package journal

import (
	"fmt"

	"github.com/weir-counter/weir/internal/units"
)

// The memory that snapshots take: a state takes at most four fifths of the memory of
// what it has (measured: 0.05 for keys of a thousand hits and more, 0.3 for short keys
// of a few, 0.79 for keys of 512 bytes with one), and there are two, and the one that is
// being written, of a partition or some. They have half of MaxBytes.
const (
	diskOverMemory   = 7
	diskOverMemoryOf = 2
)

// MinDisk is the least Config.MaxBytes for an engine with so much memory, in bytes: its
// Config.Memory and LimitMemory together. Twice the memory's snapshots have room in half of it.
func MinDisk(memory int64) int64 { return max(memory/diskOverMemoryOf*diskOverMemory, minMaxBytes) }

// MaxMemory is the most memory, in bytes, that an engine may have where Config.MaxBytes is
// so much: Memory and LimitMemory together.
func MaxMemory(maxBytes int64) int64 { return maxBytes / diskOverMemory * diskOverMemoryOf }

// receiptsOfDisk is the part of Config.MaxBytes, as one of so many, that an engine's OnceMemory
// may be. Snapshots have two slots, each with the receipts of this node and twice as many of
// others and of earlier lives: six times OnceMemory, of the half of MaxBytes that is theirs. What
// MinDisk leaves free of that half, with states at their largest, is a tenth.
const receiptsOfDisk = 120

// MaxReceipts is the most OnceMemory, in bytes, that an engine may have where Config.MaxBytes is
// so much. With more, snapshots could not be stored, and a full journal would never be trimmed.
func MaxReceipts(maxBytes int64) int64 { return maxBytes / receiptsOfDisk }

func errTooManyReceipts(maxBytes, receipts int64) error {
	return invalidConfig("MaxBytes", "MaxBytes (--max-disk) of %s is too little for an OnceMemory (--idempotency-memory) of %s: the snapshots have no room for so many receipts. Raise --max-disk to at least %s, or lower --idempotency-memory to at most %s",
		units.FormatSize(maxBytes), units.FormatSize(receipts), mib(receipts*receiptsOfDisk), kibDown(MaxReceipts(maxBytes)))
}

// leastEngine is the least Memory and LimitMemory, together, of an engine with 256 partitions.
const leastEngine = 256*64<<10 + 64<<10

// errTooLittleDisk names both settings, and says what would do.
func errTooLittleDisk(maxBytes, memory, limits int64) error {
	advice := fmt.Sprintf("Raise --max-disk to at least %s", mib(MinDisk(memory+limits)))
	if most := MaxMemory(maxBytes); most >= leastEngine {
		advice += fmt.Sprintf(", or lower the two to at most %s together", mibDown(most))
	} else {
		advice += fmt.Sprintf("; the least that any settings need is %s", mib(MinDisk(leastEngine)))
	}
	return invalidConfig("MaxBytes", "MaxBytes (--max-disk) of %s is too little for a Memory (--memory) of %s and a LimitMemory (--limit-memory) of %s: two snapshots of all that must have room in half of it. %s",
		units.FormatSize(maxBytes), units.FormatSize(memory), units.FormatSize(limits), advice)
}

// What is advised must do: a least is rounded up, a most down.
func mib(bytes int64) string     { return fmt.Sprintf("%dMiB", (bytes+1<<20-1)>>20) }
func mibDown(bytes int64) string { return fmt.Sprintf("%dMiB", bytes>>20) }
func kibDown(bytes int64) string { return fmt.Sprintf("%dKiB", bytes>>10) }
