package keyspace

import (
	"slices"

	"github.com/weir-counter/weir/internal/keytable"
)

// expectBlock is how many keys Expect looks for together: more would push each other out of
// the nearest cache.
const expectBlock = 64

// expectFrom is how many keys a keyspace has at least for Expect to pay: fewer are in the cache
// anyway.
const expectFrom = 1 << 14

// Expect brings what Hit of these keys will read into the processor's cache. A key that was not
// hit a moment ago is two cache misses, three if it is long, one after the other: so it touches the
// buckets of a block of keys, then their entries, and the processor waits for many of them at
// once.
func (k *Keyspace) Expect(keys []string) {
	if k.keys.Load() < expectFrom {
		return
	}
	var tables [expectBlock]*keytable.Table[counted]
	var hashes [expectBlock]uint64
	for block := range slices.Chunk(keys, expectBlock) {
		for i, key := range block {
			tables[i], hashes[i] = k.partition(key).table.Load(), k.hash(key)
			tables[i].Touch(hashes[i])
		}
		for i := range block {
			if en := tables[i].Likely(hashes[i]); en != nil {
				en.Value.cell.Word.Load()
			}
		}
		for i, key := range block {
			tables[i].Find(hashes[i], key)
		}
	}
}
