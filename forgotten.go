package weir

import (
	"math"
	"sync"
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
//
// Apart from all keys, it remembers hits of AllKeys that are missing where a longer
// retention was set than they were kept for.
type forgotten struct {
	rows atomic.Pointer[forgottenRows] // nil until the first eviction
	all  forgottenHits                 // of AllKeys
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

// since bounds those that are newer than the second from.
func (h *forgottenHits) since(from int64) uint64 {
	if h.newest.Load() <= from {
		return 0
	}
	return h.hits.Load()
}

// add notes more. It is called under a lock.
func (h *forgottenHits) add(hits uint64, newest int64) {
	h.hits.Store(saturated(h.hits.Load(), hits))
	h.newest.Store(max(h.newest.Load(), newest))
}

// forget is what since is 0 after. It is called under a lock.
func (h *forgottenHits) forget() {
	h.newest.Store(0)
	h.hits.Store(0)
}

// place is the i-th of all, row by row.
func (rows *forgottenRows) place(i int) *forgottenHits {
	return &rows[i/forgottenWidth][i%forgottenWidth]
}

// add remembers a key that had total hits, the newest at that second. The caller
// holds the partition's lock.
func (f *forgotten) add(e *Engine, key string, total uint64, newest int64) {
	rows := f.some(e)
	hash := xxhash.Sum64String(key)
	for depth := range rows {
		rows[depth][forgottenPlace(hash, depth)].add(total, newest)
	}
}

// some are the rows, made if there are none. The caller holds the partition's lock.
func (f *forgotten) some(e *Engine) *forgottenRows {
	rows := f.rows.Load()
	if rows == nil {
		rows = new(forgottenRows)
		f.rows.Store(rows)
		e.bytes.Add(forgottenBytes)
	}
	return rows
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

// forgottenPlaces are a key's, by number.
func forgottenPlaces(key string) (places []int) {
	hash := xxhash.Sum64String(key)
	for depth := range forgottenDepth {
		places = append(places, depth*forgottenWidth+int(forgottenPlace(hash, depth)))
	}
	return places
}

// forgottenOfAll is forgotten.all of all partitions that were loaded or merged: of use
// while all are held.
type forgottenOfAll struct {
	sync.Mutex // of who adds
	all        forgottenHits
}
