package weir

import (
	"math"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/cespare/xxhash/v2"
)

// forgotten remembers, in a fixed 8 KiB for each partition, how many hits evicted
// keys had and when they were hit last, so that no later answer is too low
// without saying so: a window that reaches back before the eviction gets the
// forgotten hits added to its upper bound.
//
// It is a count-min sketch (Cormode, Muthukrishnan 2005): a key has one place in
// each row, shared with others, and the least of its places bounds its own hits
// from above.
type forgotten struct {
	rows atomic.Pointer[forgottenRows] // nil until the first eviction
}

const (
	forgottenDepth = 2
	forgottenWidth = 256 // a power of two
)

type forgottenRows [forgottenDepth][forgottenWidth]forgottenHits

type forgottenHits struct {
	hits   atomic.Uint64
	newest atomic.Int64 // Unix second, of the newest of the hits
}

const forgottenBytes = int64(unsafe.Sizeof(forgottenRows{}))

// place is the i-th of all, row by row.
func (rows *forgottenRows) place(i int) *forgottenHits {
	return &rows[i/forgottenWidth][i%forgottenWidth]
}

// add remembers a key that had total hits, the newest at that second. The caller
// holds the partition's lock.
func (f *forgotten) add(e *Engine, key string, total uint64, newest int64) {
	rows := f.rows.Load()
	if rows == nil {
		rows = new(forgottenRows)
		f.rows.Store(rows)
		e.bytes.Add(forgottenBytes)
	}
	hash := xxhash.Sum64String(key)
	for depth := range rows {
		place := &rows[depth][forgottenPlace(hash, depth)]
		sum, carry := bits.Add64(place.hits.Load(), total, 0)
		if carry != 0 {
			sum = math.MaxUint64
		}
		place.hits.Store(sum)
		place.newest.Store(max(place.newest.Load(), newest))
	}
}

// since bounds the forgotten hits of a key that are newer than the second from.
func (f *forgotten) since(key string, from int64) uint64 {
	rows := f.rows.Load()
	if rows == nil {
		return 0
	}
	hash, least := xxhash.Sum64String(key), uint64(math.MaxUint64)
	for depth := range rows {
		place := &rows[depth][forgottenPlace(hash, depth)]
		if place.newest.Load() <= from {
			return 0
		}
		least = min(least, place.hits.Load())
	}
	return least
}

// forgottenPlace takes bits of the hash that do not choose the partition.
func forgottenPlace(hash uint64, depth int) uint64 {
	return hash >> (32 + 16*depth) & (forgottenWidth - 1)
}
