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

// Expected is a key whose hits come next, and where it is, or would be. It keeps the key's bytes.
type Expected struct {
	key       string
	partition int
	hash      uint64 // in its table
}

// Find is one key, and asks for its bucket: what is done until Hit looks into it costs less.
func (k *Keyspace) Find(key string) Expected {
	found := Expected{key, k.PartitionOf(key), k.hash(key)}
	k.tables[found.partition].Load().Expect(found.hash)
	return found
}

// Key is the key.
func (e *Expected) Key() string { return e.key }

// Expect appends keys to expected, and brings what Hit of them will read into the processor's cache. A key that was not
// hit a moment ago is two cache misses, three if it is long, one after the other, and one more if nobody has
// looked at the key itself yet: so it asks for all keys of a block, then for their buckets, then for their
// entries, and the processor waits for many of them at once.
func (k *Keyspace) Expect(expected []Expected, keys []string) []Expected {
	if k.keys.Load() < expectFrom {
		for _, key := range keys {
			expected = append(expected, k.Find(key))
		}
		return expected
	}
	var tables [expectBlock]*keytable.Table[counted]
	for block := range slices.Chunk(keys, expectBlock) {
		for _, key := range block {
			prefetch.Read(unsafe.Pointer(unsafe.StringData(key)))
		}
		first := len(expected)
		for i, key := range block {
			one := k.Find(key)
			tables[i] = k.tables[one.partition].Load()
			expected = append(expected, one)
		}
		found := expected[first:]
		for i := range found {
			tables[i].ExpectEntry(found[i].hash)
		}
		for i, key := range block {
			if keytable.Long(key) {
				tables[i].Find(found[i].hash, key)
			}
		}
	}
	return expected
}
