package window

import "math"

// readings are the numbers of a pyramid, by level and by place in the level. Each is what is stored
// for it and the base of its level together: a hit that is older than a whole level raises the
// base, one number in place of all. The numbers are stored in 16 bits each while the total of the
// pyramid fits in them, and in 64 bits from then on; either way a sum saturates at math.MaxUint64.
//
// No reading is below its level's base: what raised the base was older than all boundaries of the
// level, so it is in each reading that comes to the level later.
type readings struct {
	narrow []uint16 // nil once one number needs more
	wide   []uint64
	bases  [topMost + 1]uint64
}

// topMost is the highest level of all, that of MaxSeconds.
const topMost = 21

func newReadings() readings { return readings{narrow: make([]uint16, baseSlots)} }

// len is how many numbers there are, of all levels.
func (r *readings) len() int { return len(r.narrow) + len(r.wide) }

// size is the memory of the numbers, in bytes.
func (r *readings) size() int { return 2*cap(r.narrow) + 8*cap(r.wide) }

// get is a reading. The place counts from the first of level 0.
func (r *readings) get(level, place int) uint64 {
	if r.wide != nil {
		return addSat(r.bases[level], r.wide[place])
	}
	return r.bases[level] + uint64(r.narrow[place])
}

// set is for a reading that is not below the base of its level.
func (r *readings) set(level, place int, reading uint64) {
	if r.wide == nil {
		if reading <= math.MaxUint16 {
			r.narrow[place] = uint16(reading - r.bases[level])
			return
		}
		r.widen()
	}
	r.wide[place] = reading - r.bases[level]
}

// room makes place for readings of that much.
func (r *readings) room(total uint64) {
	if r.wide == nil && total > math.MaxUint16 {
		r.widen()
	}
}

// raise adds n to one reading, for which there is room.
func (r *readings) raise(place int, n uint64) {
	if r.wide != nil {
		r.wide[place] = addSat(r.wide[place], n)
		return
	}
	r.narrow[place] += uint16(n)
}

// raiseAll adds n to all readings of a level, for which there is room.
func (r *readings) raiseAll(level int, n uint64) {
	r.bases[level] = addSat(r.bases[level], n)
}

func (r *readings) widen() {
	r.wide = resized[uint64](nil, len(r.narrow))
	for i, stored := range r.narrow {
		r.wide[i] = uint64(stored)
	}
	r.narrow = nil
}

// resize keeps the numbers of so many levels' places; those that are new are 0.
func (r *readings) resize(n int) {
	clear(r.bases[min(levelsOf(n), levelsOf(r.len())):])
	if r.wide == nil {
		r.narrow = resized(r.narrow, n)
	} else {
		r.wide = resized(r.wide, n)
	}
}

// resized has the capacity that the allocator gives for n, so that size is true.
func resized[T any](old []T, n int) []T {
	made := append([]T(nil), make([]T, n)...)
	copy(made, old)
	return made
}

// levelsOf is how many levels have so many numbers.
func levelsOf(n int) int { return 1 + (n-baseSlots)/upperSlots }

// clone is a copy of the first n numbers, with the bases of their levels.
func (r *readings) clone(n int) readings {
	c := *r
	c.resize(n)
	return c
}
