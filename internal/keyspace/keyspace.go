// Package keyspace is the keys of an engine and what they were hit: within a memory budget, in
// partitions that are fixed shares of the keys, by hash.
//
// Calls go one way: Keyspace, partition, and from there to shared, the table, live cells and
// windows. A Keyspace finds a key's partition and has its lock; a partition does what concerns
// it alone; only a Keyspace looks at several, to make room.
//
// A hit in the second of its key's live cell takes no lock. All others, and all that leave a
// cell, go through partition.settle once: into the key's window, and with Config.Gather into
// the next cut.
package keyspace

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
	"github.com/weir-counter/weir/internal/clock"
	"github.com/weir-counter/weir/internal/keytable"
	"github.com/weir-counter/weir/window"
)

// Keyspace is the keys of an engine and what they were hit, in partitions: fixed shares of the
// keys, by hash. Calls go one way: keyspace, partition, shared.
type Keyspace struct {
	shared
	partitions []partition
	tables     []atomic.Pointer[keytable.Table[counted]] // of the partitions, beside each other: to find a key does not wait for the line of a lock
	evictNext  atomic.Uint32                             // where makeRoom looks next

	parted   atomic.Bool   // some partition was released or cleared: allKeys is the sum of those held
	releases atomic.Uint64 // so far
}

// Config sets up a Keyspace.
type Config struct {
	Partitions int           // a power of two
	Memory     int64         // the budget for keys and windows, bytes
	Gather     bool          // new hits are kept for Cut
	MaxWaiting int64         // entries that may wait for Cut
	Clock      *clock.Clock  // of the engine
	Empty      window.Window // of the engine's retention
}

// New returns an empty one.
func New(cfg Config) *Keyspace {
	k := &Keyspace{
		shared: shared{gather: cfg.Gather, memory: cfg.Memory, maxWaiting: cfg.MaxWaiting,
			clock: cfg.Clock, empty: cfg.Empty, seed: maphash.MakeSeed()},
		partitions: make([]partition, cfg.Partitions),
		tables:     make([]atomic.Pointer[keytable.Table[counted]], cfg.Partitions),
	}
	for i := range k.partitions {
		p := &k.partitions[i]
		t := keytable.NewTable[counted]()
		p.shared, p.table, p.total = &k.shared, &k.tables[i], cfg.Empty
		p.table.Store(t)
		k.bytes.Add(t.Bytes())
	}
	return k
}

// PartitionOf is the number of the key's partition.
func (k *Keyspace) PartitionOf(key string) int {
	return int(xxhash.Sum64String(key) & uint64(len(k.partitions)-1))
}

func (k *Keyspace) partition(key string) *partition { return &k.partitions[k.PartitionOf(key)] }
