package keyspace

import (
	"slices"
	"unsafe"

	"github.com/weir-counter/weir/internal/keytable"
	"github.com/weir-counter/weir/internal/prefetch"
)

// expectBlock is how many keys Expect looks for together: more would push each other out of
// the nearest cache.
const expectBlock = 64

// expectFrom is how many keys a keyspace has at least for Expect to pay: fewer are in the cache
// anyway.
const expectFrom = 1 << 14

// Expect brings what Hit of these keys will read into the processor's cache. A key that was not
// hit a moment ago is two cache misses, three if it is long, one after the other, and one more if nobody has
// looked at the key itself yet: so it asks for all keys of a block, then for their buckets, then for their
// entries, and the processor waits for many of them at once.
func (k *Keyspace) Expect(keys []string) {
	if k.keys.Load() < expectFrom {
		return
	}
	var tables [expectBlock]*keytable.Table[counted]
	var hashes [expectBlock]uint64
	for block := range slices.Chunk(keys, expectBlock) {
		for _, key := range block {
			prefetch.Read(unsafe.Pointer(unsafe.StringData(key)))
		}
		for i, key := range block {
			tables[i], hashes[i] = k.partition(key).table.Load(), k.hash(key)
			tables[i].Expect(hashes[i])
		}
		for i := range block {
			tables[i].ExpectEntry(hashes[i])
		}
		for i, key := range block {
			if keytable.Long(key) {
				tables[i].Find(hashes[i], key)
			}
		}
	}
}
