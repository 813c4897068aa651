package replication

import "math/bits"

// PartitionSet is some of an engine's partitions, a bit for each; nil is all of
// them.
type PartitionSet []uint64

// NewPartitionSet returns an empty set, for an engine of so many partitions.
func NewPartitionSet(partitions int) PartitionSet { return make(PartitionSet, (partitions+63)/64) }

// Add puts a partition into the set, which was made for as many.
func (s PartitionSet) Add(partition int) { s[partition/64] |= 1 << (partition % 64) }

// Remove takes a partition out.
func (s PartitionSet) Remove(partition int) { s[partition/64] &^= 1 << (partition % 64) }

// Has tells whether a partition is in the set.
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
