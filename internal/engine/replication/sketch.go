package replication

import (
	"math"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/cespare/xxhash/v2"
)

// This file is the eviction sketch: fixed memory, of a partition, of how many hits evicted keys had and when they were
// hit last, so that no later answer is too low without saying so. A window that reaches back before an eviction gets
// the evicted hits added to its upper bound.
//
// It is a count-min sketch (Cormode, Muthukrishnan 2005): a key has one place in each row,
// shared with others, and the least of its places bounds its own hits from above.

const (
	depth = 2
	width = 256 // a power of two

	// SketchPlaces is how many places a sketch has.
	SketchPlaces = depth * width

	// Bytes is the memory of a sketch that has any hits.
	Bytes = int64(unsafe.Sizeof(rows{}))
)

// Sketch is one partition's. The zero Sketch is empty. Add, Merge and Forget are called under
// a lock; Since may run at the same time.
type Sketch struct {
	rows atomic.Pointer[rows] // nil until the first hits
}

type rows [depth][width]SketchHits

// SketchHits are how many there were, and the second of the newest of them.
type SketchHits struct {
	hits   atomic.Uint64
	newest atomic.Int64 // Unix second
}

// Add remembers hits of a key, the newest at that second. It returns the memory that this takes, in bytes.
func (s *Sketch) Add(key string, hits uint64, newest int64) (grown int64) {
	r, grown := s.some()
	hash := xxhash.Sum64String(key)
	for row := range r {
		r[row][column(hash, row)].Add(hits, newest)
	}
	return grown
}

// Merge remembers hits of a place, 0 to Places-1, as Each gives them. It returns the memory that this takes, in bytes.
func (s *Sketch) Merge(place int, hits uint64, newest int64) (grown int64) {
	r, grown := s.some()
	r[place/width][place%width].Add(hits, newest)
	return grown
}

// Forget empties the sketch. It returns the memory that this frees, in bytes.
func (s *Sketch) Forget() (freed int64) {
	if s.rows.Swap(nil) != nil {
		return Bytes
	}
	return 0
}

// Since bounds the hits of a key that are newer than the second from.
func (s *Sketch) Since(key string, from int64) uint64 {
	r := s.rows.Load()
	if r == nil {
		return 0
	}
	hash, least := xxhash.Sum64String(key), uint64(math.MaxUint64)
	for row := range r {
		place := &r[row][column(hash, row)]
		if place.newest.Load() <= from {
			return 0
		}
		least = min(least, place.hits.Load())
	}
	return least
}

// Each calls f with the places that have hits, in order.
func (s *Sketch) Each(f func(place int, hits uint64, newest int64)) {
	r := s.rows.Load()
	if r == nil {
		return
	}
	for place := range SketchPlaces {
		if hits, newest := r[place/width][place%width].Load(); hits > 0 {
			f(place, hits, newest)
		}
	}
}

// some are the rows, made if there are none.
func (s *Sketch) some() (r *rows, grown int64) {
	if r = s.rows.Load(); r == nil {
		r, grown = new(rows), Bytes
		s.rows.Store(r)
	}
	return r, grown
}

// column takes bits of the hash that do not choose the partition.
func column(hash uint64, row int) uint64 { return hash >> (32 + 16*row) & (width - 1) }

// SketchPlacesOf are a key's, by number.
func SketchPlacesOf(key string) (places []int) {
	hash := xxhash.Sum64String(key)
	for row := range depth {
		places = append(places, row*width+int(column(hash, row)))
	}
	return places
}

// Add notes more. It is called under a lock.
func (h *SketchHits) Add(hits uint64, newest int64) {
	sum, carry := bits.Add64(h.hits.Load(), hits, 0)
	if carry != 0 {
		sum = math.MaxUint64
	}
	h.hits.Store(sum)
	h.newest.Store(max(h.newest.Load(), newest))
}

// Forget is what Since is 0 after. It is called under a lock.
func (h *SketchHits) Forget() {
	h.newest.Store(0)
	h.hits.Store(0)
}

// Since bounds those that are newer than the second from.
func (h *SketchHits) Since(from int64) uint64 {
	if h.newest.Load() <= from {
		return 0
	}
	return h.hits.Load()
}

// Load returns them.
func (h *SketchHits) Load() (hits uint64, newest int64) { return h.hits.Load(), h.newest.Load() }
