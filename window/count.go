package window

import (
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Count is the answer to "how many hits": Lower <= truth <= Upper, and Estimate between them. All three saturate at
// math.MaxUint64. An Upper of math.MaxUint64 says that no upper bound is known.
type Count struct {
	Lower, Estimate, Upper uint64
}

// Exact reports whether nothing is in doubt: Lower = Estimate = Upper.
func (c Count) Exact() bool { return c.Lower == c.Upper && c.HasUpper() }

// HasUpper reports whether Upper is a bound; if not, there may be any number of hits from Lower up.
func (c Count) HasUpper() bool { return c.Upper != math.MaxUint64 }

// AtLeast is the count where more hits may be missing than anybody knows: it has no upper bound.
func (c Count) AtLeast() Count {
	c.Upper = math.MaxUint64
	return c
}

// String is the number, with what is known of it: "12", "12 (10 to 15)", or
// without an upper bound "12 or more" and "12 (10 or more)".
func (c Count) String() string {
	switch {
	case c.Exact():
		return fmt.Sprint(c.Estimate)
	case c.HasUpper():
		return fmt.Sprintf("%d (%d to %d)", c.Estimate, c.Lower, c.Upper)
	case c.Lower == c.Estimate:
		return fmt.Sprintf("%d or more", c.Lower)
	}
	return fmt.Sprintf("%d (%d or more)", c.Estimate, c.Lower)
}

// Plus is the count of two disjoint sets of hits.
func (c Count) Plus(o Count) Count {
	return Count{addSat(c.Lower, o.Lower), addSat(c.Estimate, o.Estimate), addSat(c.Upper, o.Upper)}
}

// Exactly is the count of n hits without doubt.
func Exactly(n uint64) Count { return Count{n, n, n} }

// Count answers how many hits lie in (at-seconds, at]. seconds below 1 is an empty window; at may lie before the newest
// hit, then both ends of the window may be in doubt.
//
// Exact while the window is in its sparse form, and wherever both ends lie within the newest 511 s. Beyond, one edge
// slot is in doubt, at most 1 % of the window when at is not before the newest hit. Where the window reaches back
// beyond the retention, hits that have left are in Upper only.
//
// Cost: O(1) dense; O(pairs in the window) sparse, at most maxPairBytes.
func (w *Window) Count(at, seconds int64) Count {
	if at > MaxTime { // the part of the window after it has no hits
		at, seconds = MaxTime, seconds-(at-MaxTime)
	}
	if seconds < 1 || at < 0 || w.empty() {
		return Count{}
	}
	seconds = min(seconds, at+1) // nor has the part before 1970
	if w.dense != nil {
		if c, ok := w.dense.recent(w.newest(), at, seconds); ok {
			return c
		}
		return w.dense.count(w.newest(), at, seconds)
	}
	n, older := w.pairs().count(w.newest(), at-seconds, at)
	c := Exactly(n)
	if at-seconds < w.newest()-w.Retention() {
		c.Upper = addSat(c.Upper, older)
	}
	return c
}

// reading is what the pyramid knows of the running total at one instant:
// the totals at the two nearest boundaries around it.
type reading struct {
	before, after uint64 // totals at the boundary at or before, and at or after
	between       uint64 // the total at the instant, interpolated
}

// recent is count of a window that ends at the newest second or later and begins within level 0, as
// most do: both readings are in one level, and nothing is in doubt.
func (p *pyramid) recent(newest, at, seconds int64) (c Count, ok bool) {
	if at < newest || at-seconds <= newest-baseSlots || at-seconds < newest-p.retention {
		return Count{}, false
	}
	end := p.total(newest)
	if end == math.MaxUint64 { // the running total is full
		return Count{}, false
	}
	return Exactly(end - p.readings.get(0, place(0, min(at+1-seconds, newest+1)))), true
}

// count subtracts the reading at the window's start from the one at its end.
func (p *pyramid) count(newest, at, seconds int64) Count {
	end, start := p.read(newest, at+1), p.read(newest, at+1-seconds)
	c := Count{Upper: end.after - start.before}
	if end.before > start.after {
		c.Lower = end.before - start.after
	}
	if end.between > start.between {
		c.Estimate = end.between - start.between
	}
	if end.after == math.MaxUint64 {
		c.Upper = math.MaxUint64 // the running total is full: more may have come
	}
	if at-seconds < newest-p.retention {
		c.Upper = addSat(c.Upper, p.older)
	}
	c.Estimate = min(max(c.Estimate, c.Lower), c.Upper)
	return c
}

// interpolate returns a + (b-a)*part/whole, rounded to nearest; part <= whole.
func interpolate(a, b uint64, part, whole int64) uint64 {
	hi, lo := bits.Mul64(b-a, uint64(part))
	lo, carry := bits.Add64(lo, uint64(whole)/2, 0)
	q, _ := bits.Div64(hi+carry, lo, uint64(whole))
	return a + q
}

func addSat(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	if carry != 0 {
		return math.MaxUint64
	}
	return sum
}

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

// topMost is the highest level: the level of MaxSeconds.
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

// fit makes the slots wide enough for readings of total.
func (r *readings) fit(total uint64) {
	if r.wide == nil && total > math.MaxUint16 {
		r.widen()
	}
}

// raise adds n to one reading, which is wide enough.
func (r *readings) raise(place int, n uint64) {
	if r.wide != nil {
		r.wide[place] = addSat(r.wide[place], n)
		return
	}
	r.narrow[place] += uint16(n)
}

// stored is a reading without the base of its level.
func (r *readings) stored(place int) uint64 {
	if r.wide != nil {
		return r.wide[place]
	}
	return uint64(r.narrow[place])
}

// lower takes n from one reading, as far as that has it without its base.
func (r *readings) lower(place int, n uint64) {
	n = min(n, r.stored(place))
	if r.wide != nil {
		r.wide[place] -= n
		return
	}
	r.narrow[place] -= uint16(n)
}

// raiseAll adds n to all readings of a level, which are wide enough.
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

// Point is the count of the hits in (At-step, At].
type Point struct {
	At time.Time
	Count
}

// String is the time and its count.
func (p Point) String() string { return p.At.UTC().Format(time.RFC3339) + " " + p.Count.String() }

// KeyCount is a key and its count.
type KeyCount struct {
	Key string
	Count
}

// String is the key and its count.
func (kc KeyCount) String() string { return kc.Key + " " + kc.Count.String() }
