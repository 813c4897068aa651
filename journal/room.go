package journal

import "fmt"

// room is how Config.MaxBytes is shared out, in pure figures: the journal that it is
// asked of, and the simulation, decide alike. Of sixteen parts
//
//	0       4           6     7   8                                       16
//	|-------|-----------|-----|---|---------------------------------------|
//	journal   in haste    full      two snapshots of each partition
//	                            spent
//
// No flush ever waits for room. What would wait for what, were it otherwise:
//
//	hit -> flush -> room -> trim -> snapshots -> states -> the next flush
//
// is a circle, for a state counts only with the own hits in it, which are in the
// journal first. So it is cut where it does no harm, at its beginning: from full on,
// hits are refused before they are counted (Replication.BoundWaiting), and what was counted
// until then is bounded so that it has room, on all nodes together. The flush that takes
// a state is then small or empty, and nothing that frees room waits for any:
//
//	hit (refused)     flush -> the store     trim -> snapshots -> states -> the last flush
//
// Beside hits, what writes is: admissions, which no flush leaves in memory, or a crash
// would give more of them back than those of one flush interval; so decisions that would
// admit are refused (Replication.RefuseTakes) from half way between full and spent on. When it
// is spent, heartbeats and totals wait, and whoever waits for a flush is refused (errFull).
// The store itself takes MaxBytes, which the rest never comes to (see MinDisk).
type room struct {
	max       int64 // Config.MaxBytes
	nodes     int   // that write the journal: what is counted on each must have room
	clustered bool
}

// roomParts is in how many parts max is shared out.
const roomParts = 16

// messageBytes is what the store adds to each message.
const messageBytes = 64

// haste tells whether the journal has taken so much that rounds must be quick.
func (r room) haste(kept int64) bool { return kept > r.max/roomParts*4 }

// fullFrom is how much journal there may be before hits are refused. A node alone knows
// to the byte how much there is; of many, each knows it from a moment ago.
func (r room) fullFrom() int64 {
	if r.clustered {
		return r.max / roomParts * 6
	}
	return r.max / roomParts * 7
}

// full tells whether hits are refused.
func (r room) full(kept int64) bool { return r.waiting(kept, 0) < 0 }

// flushing is what the next flush is like, by how much journal there is.
type flushing struct {
	haste bool // it takes more states
	quiet bool // it has no heartbeats and totals, and whoever waits for it is refused
}

// flushing decides it. last says that it is one of the last flushes.
func (r room) flushing(kept int64, last bool) flushing {
	return flushing{haste: r.haste(kept), quiet: r.spent(kept) && !last}
}

// admits tells whether there is room for admissions, while so many bytes are on their way.
func (r room) admits(kept, underWay int64) bool { return kept+underWay <= r.max/roomParts/2*15 }

// takes tells whether there is room for something large that is no hit's, and can wait.
func (r room) takes(kept, bytes int64) bool { return kept+bytes <= r.fullFrom()-r.max/roomParts }

// endsPin tells whether nothing may keep snapshots from being taken any more.
func (r room) endsPin(kept int64) bool { return kept > r.fullFrom()-r.max/roomParts }

// spent tells whether all is used that full left for what was counted.
func (r room) spent(kept int64) bool { return kept > r.max/roomParts*8 }

// waiting is how many bytes of hits may wait for a flush, beside those under way; below 0
// none are taken. Of many nodes each may have its share, twice: under way, and waiting.
func (r room) waiting(kept, underWay int64) int64 {
	left := r.fullFrom() - kept - underWay
	switch {
	case left < r.max/roomParts/16:
		return -1
	case r.clustered:
		return r.max / roomParts / 2 / int64(max(r.nodes, 1))
	}
	return left
}

// every is by how much the journal grows between rounds of snapshots, if the round
// before took so many bytes: snapshots write no more than the journal, as long as that
// has room.
func (r room) every(snapshotBytes, last, kept int64) int64 {
	every := min(max(snapshotBytes, last), r.max/8)
	if r.haste(kept) {
		every = min(every, r.max/64)
	}
	return every
}

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
		mib(maxBytes), mib(memory), mib(limits), advice)
}

func mib(bytes int64) string     { return fmt.Sprintf("%dMiB", (bytes+1<<20-1)>>20) }
func mibDown(bytes int64) string { return fmt.Sprintf("%dMiB", bytes>>20) }
