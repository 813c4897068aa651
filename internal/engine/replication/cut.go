// Package replication has the data that a journal and a cluster read and write of an engine: what
// was counted here and is not stored yet (Cut), and what was stored or counted elsewhere. The types
// know no engine, clock or lock; package engine applies them.
//
// A partition is a fixed share of the key space. All its hits go through cuts, each in one of
// them, in the order of the journal; so nodes that apply the same cuts have the same counts.
package replication

import (
	"math/bits"

	"github.com/weir-counter/weir/internal/distinct"
	"github.com/weir-counter/weir/internal/wire"
)

// Delta is what one key adds to a batch: N hits in the second At, or with N = 0
// the key's removal from memory on request.
type Delta struct {
	Key string
	At  int64 // Unix seconds
	N   uint64
}

// Admission is what a batch has of a limit that survives a restart, or that other
// nodes count too: N admissions of a key, none later than At. Limit is the limit
// itself, in bytes that only an engine reads: a restart counts admissions before
// anybody has said what the limits are now.
type Admission struct {
	Limit string
	Key   string
	At    int64 // Unix ms, by the clock of the node that admitted
	N     uint64
}

// Cut is what a partition gathered since the cut before.
type Cut struct {
	Deltas      []Delta       // in the order in which they settled; a key and second may repeat
	Past        []Delta       // hits for history alone (Engine.TakePast), after the removals of Deltas
	PastRemoved []Delta       // and those before them, of keys that were removed since
	Changes     []Change      // what became of keys of limits, in order; before Admissions
	Admissions  []Admission   // of limits that survive a restart
	Distinct    []KeyDistinct // new ids, by key; after the removals of Deltas
	State       []byte        // the partition after all these, if asked for: see Engine.LoadState
}

// KeyDistinct is ids of a key: new ones, or all.
type KeyDistinct struct {
	Key string
	Set *distinct.Set
}

// AppendDistinct appends the bytes of one: the key and the set, each after its length. scratch is memory to use.
func (d KeyDistinct) AppendDistinct(b []byte, scratch *[]byte) []byte {
	*scratch = d.Set.Append((*scratch)[:0])
	return wire.AppendBlock(wire.AppendText(b, d.Key), *scratch)
}

// ReadDistinct reads what AppendDistinct wrote, for a retention in seconds. It fails the reader if that is invalid.
func ReadDistinct(r *wire.Reader, retention int64) KeyDistinct {
	d := KeyDistinct{Key: r.Text(maxChangeText)}
	set := wire.NewReader(r.Block())
	if d.Set = distinct.Read(set, retention); !set.Done() || d.Key == "" {
		r.Fail()
	}
	return d
}

// Followed is what a journal has of a partition at one place. Only one field is set.
type Followed struct {
	Deltas   []Delta       // for Engine.Apply
	Windows  []KeyWindow   // for Engine.MergeWindows
	Evicted  []Evicted     // for Engine.MergeEvicted
	Distinct []KeyDistinct // for Engine.MergeDistinct
	Clear    bool          // all hits before it are gone
}

// PartitionSet is some of an engine's partitions, a bit for each; nil is all of
// them.
type PartitionSet []uint64

// NewPartitionSet returns an empty set, for an engine of so many partitions.
func NewPartitionSet(partitions int) PartitionSet { return make(PartitionSet, (partitions+63)/64) }

// Add puts a partition into the set, which was made for as many.
func (s PartitionSet) Add(partition int) { s[partition/64] |= 1 << (partition % 64) }

// Remove takes a partition out.
func (s PartitionSet) Remove(partition int) { s[partition/64] &^= 1 << (partition % 64) }

// Has reports whether a partition is in the set.
func (s PartitionSet) Has(partition int) bool {
	return s == nil || partition/64 < len(s) && s[partition/64]>>(partition%64)&1 != 0
}

// Len is how many partitions are in the set; of nil it is 0.
func (s PartitionSet) Len() (n int) {
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}
