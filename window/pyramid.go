package window

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unsafe"
)

// pyramid is the dense form, the time pyramid: levels of slots that are twice as wide from one level to the next, each
// covering what the finer one no longer does. It does not store the slots but the running total at their boundaries, as
// an odometer shows it: a slot is the difference of two neighboring readings, and so is any window, whatever its
// length. That makes a count two look-ups instead of a sum over slots, and folding two slots into a wider one means
// dropping the reading between them.
//
// Let end = newest+1, the boundary after the newest second. Level 0 has the boundaries end-511 .. end, 1 s apart. Level
// j >= 1 has those 128 multiples of its width 2^(j+1) s that end at floor(end/width)-128, so their age is 128 to 256
// widths:
//
//	level   width   age of its boundaries
//	0       1 s       0 ..  511 s
//	1       4 s     512 .. 1020 s
//	2       8 s    1024 .. 2040 s
//	...
//	21      2^22 s  17 .. 34 years
//
// (2 s slots are skipped: 512 s is old enough for slots of 4 s.) A window of w seconds that ends at or after the newest
// hit starts in a slot no wider than w/127: the doubt promised to be at most 1 %.
//
// Invariants: readings never fall from older to newer. Which boundaries exist depends on newest and the retention
// alone, and each reading is the number of hits before that boundary. So the same hits in any order give the same
// readings, and two pyramids merge by adding them. A level is allocated once its newest reading is above 0; levels
// beyond have readings of 0. Each reading saturates at math.MaxUint64.
type pyramid struct {
	retention int64    // how long hits are kept, seconds
	top       int      // the highest level that the retention needs
	older     uint64   // hits that had left the sparse form before the pyramid was made
	readings  readings // level 0, then levels 1, 2, ... of upperSlots each
}

const (
	baseSlots  = 512 // of level 0, a power of two, >= 300
	upperSlots = 128 // of each other level: 1/127 < 1 %
)

func newPyramid(retention int64, older uint64) *pyramid {
	return &pyramid{
		retention: retention,
		top:       topLevel(retention),
		older:     older,
		readings:  newReadings(),
	}
}

// topLevel is the highest level needed to keep hits for retention seconds.
func topLevel(retention int64) int {
	level := 0
	for slots := int64(baseSlots - 1); slots < retention; slots = int64(2*upperSlots-1) << shift(level) {
		level++
	}
	return level
}

// shift is log2 of the width of a level's slots in seconds.
func shift(level int) uint {
	if level == 0 {
		return 0
	}
	return uint(level + 1)
}

// span returns the lowest and highest boundary of a level, in units of its width.
func span(level int, newest int64) (low, high int64) {
	if level == 0 {
		return newest + 2 - baseSlots, newest + 1
	}
	high = (newest+1)>>shift(level) - upperSlots
	return high + 1 - upperSlots, high
}

// place is where the reading at a boundary, in units of the level's width, is among all readings.
func place(level int, unit int64) int {
	if level == 0 {
		return int(unit & (baseSlots - 1))
	}
	return baseSlots + (level-1)*upperSlots + int(unit&(upperSlots-1))
}

// value is the reading at a boundary of a level, allocated or not.
func (p *pyramid) value(level int, unit int64) uint64 {
	if level >= p.levels() {
		return 0
	}
	return p.readings.get(level, place(level, unit))
}

// levels is the number of allocated levels.
func (p *pyramid) levels() int { return levelsOf(p.readings.len()) }

func (p *pyramid) total(newest int64) uint64 { return p.readings.get(0, place(0, newest+1)) }

// add counts n hits at the second at, at <= newest, by raising every later reading: in its own level one
// by one, in each finer level all at once.
func (p *pyramid) add(newest, at int64, n uint64) {
	if p.readings.wide == nil {
		p.readings.fit(addSat(p.total(newest), n))
	}
	if at == newest { // the hot case: one reading
		p.readings.raise(place(0, newest+1), n)
		return
	}
	for p.levels() <= p.top {
		if _, high := span(p.levels(), newest); high<<shift(p.levels()) <= at {
			break
		}
		p.grow()
	}
	for level := range p.levels() {
		low, high := span(level, newest)
		after := at>>shift(level) + 1
		if after <= low {
			p.readings.raiseAll(level, n)
			continue
		}
		for unit := after; unit <= high; unit++ {
			p.readings.raise(place(level, unit), n)
		}
		return // the boundaries of coarser levels are older
	}
}

// retract takes back n hits at the second at, by lowering every reading after it. A level whose boundaries all come after the hit has it
// in its base or in each of its readings. It returns how many hits it took.
func (p *pyramid) retract(newest, at int64, n uint64) uint64 {
	n = min(n, p.read(newest, at+1).after-p.read(newest, at).before)
	for level := range p.levels() {
		low, high := span(level, newest)
		after, left := at>>shift(level)+1, n
		if after <= low && p.readings.stored(place(level, low)) < n {
			in := min(n, p.readings.bases[level])
			p.readings.bases[level] -= in
			left -= in
		}
		for unit := max(after, low); unit <= high && left > 0; unit++ {
			p.readings.lower(place(level, unit), left)
		}
		if after > low {
			break // the boundaries of coarser levels are older
		}
	}
	return n
}

// advance moves newest on to the second to. Readings that fall off a level pass to the next if they lie on one of its
// boundaries. O(1) amortised: a level is touched only when end crosses one of its boundaries, and then so were all
// finer ones.
func (p *pyramid) advance(newest, to int64) {
	for p.levels() <= p.top {
		_, high := span(p.levels(), to)
		if p.known(newest, high<<shift(p.levels())) == 0 {
			break
		}
		p.grow()
	}
	touched := 0
	for touched < p.levels() {
		_, was := span(touched, newest)
		if _, is := span(touched, to); is == was {
			break
		}
		touched++
	}
	for level := touched - 1; level >= 0; level-- { // coarse first: it reads the finer
		_, was := span(level, newest)
		low, high := span(level, to)
		for unit := max(low, was+1); unit <= high; unit++ {
			p.readings.set(level, place(level, unit), p.known(newest, unit<<shift(level)))
		}
	}
}

// known returns the reading at a boundary that some level has, that lies after
// the newest hit, or that lies before the first hit.
func (p *pyramid) known(newest, boundary int64) uint64 {
	if boundary > newest {
		return p.total(newest)
	}
	level := p.levelOf(newest, boundary)
	return p.value(level, boundary>>shift(level))
}

// levelOf returns the finest level that reaches back to the instant, or top+1
// if none does. The instant is at most newest.
func (p *pyramid) levelOf(newest, instant int64) int {
	age := uint64(newest + 1 - instant)
	if age < baseSlots {
		return 0
	}
	// Level j's boundaries are less than 256 widths old: age < 2^(j+9).
	level := bits.Len64(age) - 9
	if level > p.top {
		return p.top + 1
	}
	if low, _ := span(level, newest); instant < low<<shift(level) {
		level++
	}
	return level
}

// read returns what is known of the running total at an instant.
func (p *pyramid) read(newest, instant int64) reading {
	if instant > newest {
		return exactly(p.total(newest))
	}
	level := p.levelOf(newest, instant)
	if level == 0 {
		return exactly(p.value(0, instant))
	}
	if level > p.top { // beyond the retention: some of the oldest reading
		low, _ := span(p.top, newest)
		gone := p.value(p.top, low)
		return reading{before: 0, after: gone, between: gone}
	}
	unit := instant >> shift(level)
	from, before := unit<<shift(level), p.value(level, unit)
	if from == instant {
		return exactly(before)
	}
	next := level
	if _, high := span(level, newest); unit == high { // the next boundary is the finer level's lowest
		next--
		unit, _ = span(next, newest)
	} else {
		unit++
	}
	to, after := unit<<shift(next), p.value(next, unit)
	return reading{before, after, interpolate(before, after, instant-from, to-from)}
}

func exactly(total uint64) reading { return reading{total, total, total} }

// grow adds a level of readings of 0.
func (p *pyramid) grow() { p.readings.resize(p.readings.len() + upperSlots) }

// stack is where the bytes of pairs are. While they are few, that is the Window itself, so that a key with few
// hits is one piece of memory. More of them have memory of their own.
type stack struct {
	far              *byte // the first of capacity bytes; nil: they are near
	length, capacity uint16
	near             [12]byte // 3 to 12 pairs
}

// pairs is the bytes, for reading, and for changes whose result is kept.
func (s *stack) pairs() pairs {
	if s.far != nil {
		return unsafe.Slice(s.far, s.capacity)[:s.length]
	}
	return s.near[:s.length]
}

// keep puts p, which pairs may have given, in place of what is there. It keeps p's memory, if p is not small.
func (s *stack) keep(p pairs) {
	switch first := unsafe.SliceData(p); {
	case len(p) > len(s.near):
		s.far, s.capacity = first, uint16(min(cap(p), math.MaxUint16))
	case first != s.far:
		s.far, s.capacity = nil, 0
		copy(s.near[:], p)
	}
	s.length = uint16(len(p))
}

// Clone returns an independent copy.
func (w *Window) Clone() Window {
	c := Window{head: w.head}
	c.keep(slices.Clone(w.pairs()))
	if w.dense != nil {
		dense := *w.dense
		dense.readings = dense.readings.clone(dense.readings.len())
		c.dense = &dense
	}
	return c
}

// Merge adds all hits of o, which stays as it is: the result is the window of the hits of both. The two must keep hits
// for the same time, or Merge returns an error and changes nothing. O(slots of both).
func (w *Window) Merge(o *Window) error {
	if w.Retention() != o.Retention() {
		return fmt.Errorf("window: merge of a window kept for %d s into one kept for %d s: give both the same retention", o.Retention(), w.Retention())
	}
	switch {
	case o.empty():
	case w.empty():
		*w = o.Clone()
	case o.dense == nil:
		w.mergePairs(o)
	default:
		if w.dense == nil {
			w.promote()
		}
		w.mergeDense(o)
	}
	return nil
}

func (w *Window) mergePairs(o *Window) {
	list, older := o.pairs().list(o.newest())
	for _, p := range slices.Backward(list) {
		if w.dense != nil {
			w.addDense(p.at, p.n)
		} else {
			w.addPair(p.at, p.n)
		}
	}
	if w.dense != nil {
		w.dense.older = addSat(w.dense.older, older)
		return
	}
	mine, had := w.pairs().list(w.newest())
	w.keep(packPairs(mine, addSat(had, older)))
	if addSat(had, older) > 0 { // no pair may be older than the hits that have left
		w.keep(w.pairs().trim(w.newest(), w.newest()-w.Retention()))
	}
	w.bound()
}

// mergeDense brings both pyramids to the same newest second, where they have
// the same boundaries, and adds their readings.
func (w *Window) mergeDense(o *Window) {
	if w.newest() < o.newest() {
		w.dense.advance(w.newest(), o.newest())
		w.setNewest(o.newest())
	} else if o.newest() < w.newest() {
		ahead := o.Clone()
		ahead.dense.advance(o.newest(), w.newest())
		o = &ahead
	}
	for w.dense.levels() < o.dense.levels() {
		w.dense.grow()
	}
	w.dense.readings.fit(addSat(w.dense.total(w.newest()), o.dense.total(w.newest())))
	for level := range o.dense.levels() {
		w.dense.readings.raiseAll(level, o.dense.readings.bases[level])
	}
	o.dense.each(w.newest(), func(level, place int) bool {
		w.dense.readings.raise(place, o.dense.readings.get(level, place)-o.dense.readings.bases[level])
		return true
	})
	w.dense.older = addSat(w.dense.older, o.dense.older)
}
