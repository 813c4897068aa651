// Package distinct counts different ids, such as visitors, in rolling windows that end now. It is pure: hashes of ids and
// times are arguments, and there is no clock, lock or goroutine.
//
// A Set knows of each id when it was last seen. The newest Few ids are a list of (hash, second), so a window that holds
// no more than these is exact. Once the list is full, a sketch has all ids too: a sliding-window HyperLogLog (Chabchoub
// and Hébrail, "Sliding HyperLogLog", 2010) in slots of time. A register of a slot is dropped when a later slot has it
// at the same rank or above, since every window that ends now and includes the one includes the other. So most slots
// have few registers left, and the slots of 30 days together take some 11 KiB. One sketch with all registers for each
// slot would leave 16 KiB for only some 20 slots.
//
// Slots are 2^l seconds wide, aligned to the epoch, and at most 1/16 of their age. A window that begins within a slot is
// in doubt about that slot: Count says the bounds without it and with it. The standard error of the sketch is another
// matter, and is stated separately.
//
// What a Set has depends on the ids and their times alone, in any order and however often they come: Merge is
// idempotent, commutative and associative. So the same bytes are a change in the journal, a part of a snapshot, and an
// answer of another node. One thing depends on the order: when a sketch outgrows its memory, it drops to half of the
// registers, and two nodes may do so at different times. Each then states its own error: 2.3 % up to some 19,000 ids
// within the retention, 3.25 % up to 280,000, and 4.6 % up to 100 million.
//
// The estimator is the improved raw one of Ertl ("New cardinality estimation algorithms for HyperLogLog sketches", 2017),
// which needs no tables. ExaLogLog has the same error with 43 % fewer bytes, but a dropped register must then keep the
// ranks below its own as well: in slots, that uses up the gain.
package distinct

import (
	"maps"
	"math"
	"slices"
	"sort"
)

const (
	// Few is how many of the newest ids are known one by one.
	Few = 256

	// MaxSecond is the last second that an id can have, in 2106.
	MaxSecond = math.MaxUint32

	// MaxBytes is the most memory that a Set takes.
	MaxBytes = 16 << 10

	setBytes = 160 // of the structs
)

// Set is the ids of one key. Make it with New.
type Set struct {
	retention int64 // seconds
	newest    int64 // the last second of any id; -1: there is none
	settled   int64 // newest when Settle was last done
	floor     int64 // the last second of an id that the list lacks; -1: it lacks none

	hashes  []uint64 // the newest ids, in order
	seconds []uint32 // when each was last seen
	sketch  *sketch  // of all ids; nil: all are in the list, but those that the retention has left
}

// New returns an empty Set that keeps ids for a retention, in seconds.
func New(retention int64) *Set {
	return &Set{retention: retention, newest: -1, settled: -1, floor: -1}
}

// Newest is the second when the newest id was seen; -1: there is none.
func (s *Set) Newest() int64 { return s.newest }

// Size is the memory of the set, in bytes.
func (s *Set) Size() int {
	n := setBytes + 8*cap(s.hashes) + 4*cap(s.seconds)
	if s.sketch != nil {
		n += s.sketch.size()
	}
	return n
}

// Add notes that an id with a hash was seen at a second, 0 to MaxSecond. It reports whether that changes anything.
func (s *Set) Add(second int64, hash uint64) (changed bool) {
	if second <= s.newest-s.retention {
		return false
	}
	s.newest = max(s.newest, second)
	if changed = s.list(second, hash); changed && s.sketch != nil {
		s.addSketch(second, hash)
	}
	return changed
}

// list is Add without the sketch, which it begins when the list is full.
func (s *Set) list(second int64, hash uint64) (changed bool) {
	i, found := slices.BinarySearch(s.hashes, hash)
	switch {
	case found && int64(s.seconds[i]) >= second:
		return false
	case found:
		s.seconds[i] = uint32(second)
		return true
	case len(s.hashes) < Few:
		s.insert(i, second, hash)
		return true
	}
	oldest := 0
	for j, at := range s.seconds {
		if at < s.seconds[oldest] { // of equal ones, the one with the lower hash
			oldest = j
		}
	}
	s.begin()
	if at := int64(s.seconds[oldest]); second < at || second == at && hash < s.hashes[oldest] {
		s.floor = max(s.floor, second)
		return true // perhaps: the sketch has it
	}
	s.floor = max(s.floor, int64(s.seconds[oldest]))
	s.hashes, s.seconds = slices.Delete(s.hashes, oldest, oldest+1), slices.Delete(s.seconds, oldest, oldest+1)
	if oldest < i {
		i--
	}
	s.insert(i, second, hash)
	return true
}

func (s *Set) insert(i int, second int64, hash uint64) {
	if n := len(s.hashes); n == cap(s.hashes) {
		s.hashes = append(make([]uint64, 0, min(n+n/2+2, Few)), s.hashes...)
		s.seconds = append(make([]uint32, 0, cap(s.hashes)), s.seconds...)
	}
	s.hashes, s.seconds = slices.Insert(s.hashes, i, hash), slices.Insert(s.seconds, i, uint32(second))
}

// begin begins the sketch, with the ids of the list.
func (s *Set) begin() {
	if s.sketch != nil {
		return
	}
	s.sketch = &sketch{precision: maxPrecision, aligned: s.newest}
	byTime := make([]int, len(s.hashes))
	for i := range byTime {
		byTime[i] = i
	}
	sort.Slice(byTime, func(a, b int) bool { return s.seconds[byTime[a]] < s.seconds[byTime[b]] })
	for _, i := range byTime {
		s.addSketch(int64(s.seconds[i]), s.hashes[i])
	}
}

func (s *Set) addSketch(second int64, hash uint64) {
	if s.sketch.full() {
		s.settle()
	}
	if s.sketch != nil { // else the list has all again
		s.sketch.add(second, hash)
	}
}

// Has reports whether an id was seen within the retention, surely as far as the list goes back, else perhaps.
func (s *Set) Has(hash uint64) bool {
	if _, found := slices.BinarySearch(s.hashes, hash); found || s.sketch == nil {
		return found
	}
	return s.sketch.has(hash)
}

// settle brings the set into the form that all sets with the same ids have.
func (s *Set) settle() {
	s.settled = s.newest
	left := s.newest - s.retention // and what is older
	if kept := 0; s.anyUpTo(left) {
		for i, at := range s.seconds {
			if int64(at) > left {
				s.hashes[kept], s.seconds[kept] = s.hashes[i], at
				kept++
			}
		}
		s.hashes, s.seconds = s.hashes[:kept], s.seconds[:kept]
	}
	if s.floor <= left {
		s.sketch, s.floor = nil, -1
	}
	if s.sketch != nil {
		s.sketch.settle(s.newest, left)
	}
}

func (s *Set) anyUpTo(left int64) bool {
	return slices.ContainsFunc(s.seconds, func(at uint32) bool { return int64(at) <= left })
}

// Count is how many different ids were seen after a second.
type Count struct {
	Lower, Estimate, Upper uint64  // as far as the edge slot is in doubt
	Error                  float64 // the relative standard error of all three; 0: they are exact
}

// Count answers for the ids seen after a second, until now.
func (s *Set) Count(from int64) Count {
	if s.settled != s.newest {
		s.settle()
	}
	listed := uint64(0)
	for _, at := range s.seconds {
		if int64(at) > from {
			listed++
		}
	}
	if from >= s.floor || s.sketch == nil {
		return Count{Lower: listed, Estimate: listed, Upper: listed}
	}
	lower, upper, share := s.sketch.count(from)
	lower = max(lower, float64(listed))
	upper = max(lower, upper)
	return Count{Lower: whole(lower), Estimate: whole(lower + share*(upper-lower)), Upper: whole(upper), Error: s.sketch.error()}
}

// CountUntil answers for the ids seen after a second, until another one that is past. An id that was seen again since then
// may have been seen in between too: only Upper has it.
func (s *Set) CountUntil(from, to int64) Count {
	if to >= s.newest {
		return s.Count(from)
	}
	all, since := s.Count(from), s.Count(to)
	c := Count{Upper: all.Upper, Error: all.Error}
	for _, at := range s.seconds {
		if int64(at) > from && int64(at) <= to {
			c.Lower++
		}
	}
	c.Estimate = max(c.Lower, all.Estimate-min(all.Estimate, since.Estimate))
	return c
}

func whole(x float64) uint64 { return uint64(math.Round(x)) }

// Merge adds all ids of another set, which does not change but may be settled.
func (s *Set) Merge(o *Set) {
	o.settle()
	if s.newest < 0 {
		retention := s.retention
		*s = *o.Clone()
		s.retention = retention
		s.settle()
		return
	}
	s.newest = max(s.newest, o.newest)
	s.settle()
	if o.sketch != nil {
		s.begin()
		s.sketch.merge(o.sketch, s.newest)
	}
	for i, hash := range o.hashes {
		s.Add(int64(o.seconds[i]), hash)
	}
	if o.floor > s.newest-s.retention {
		s.floor = max(s.floor, o.floor)
	}
	s.settle()
}

// Spans calls f with the ids that were last seen in each span of so many seconds, in order. Theirs are sets of ids without a time:
// all were seen at second 0, and so Count(-1) counts what such sets have together once they are merged. Of sets whose ids were all
// seen in one span, f gets all; of others those that are still known.
func (s *Set) Spans(seconds int64, f func(start int64, ids *Set)) {
	s.settle()
	spans := map[int64]*Set{}
	at := func(second int64) *Set {
		start := second - second%seconds
		if spans[start] == nil {
			spans[start] = New(s.retention)
			spans[start].newest = 0
		}
		return spans[start]
	}
	for i, hash := range s.hashes {
		span := at(int64(s.seconds[i]))
		span.hashes, span.seconds = append(span.hashes, hash), append(span.seconds, 0)
	}
	for i := 0; s.sketch != nil && i < len(s.sketch.starts); i++ {
		start, width := int64(s.sketch.starts[i]), int64(1)
		if start <= s.sketch.aligned {
			_, width = slotOf(start, s.sketch.aligned)
		}
		last := min(start+width-1, s.newest)
		if last-last%seconds > s.floor {
			continue // the list has all of its span
		}
		span := at(last)
		if span.floor = 0; span.sketch == nil {
			span.sketch = &sketch{precision: s.sketch.precision}
		}
		from, to := s.sketch.slot(i)
		span.sketch.append(0, s.sketch.entries[from:to])
	}
	for _, start := range slices.Sorted(maps.Keys(spans)) {
		f(start, spans[start])
	}
}

// Clone returns a copy.
func (s *Set) Clone() *Set {
	c := *s
	c.hashes, c.seconds = slices.Clone(s.hashes), slices.Clone(s.seconds)
	if s.sketch != nil {
		k := *s.sketch
		k.starts, k.ends, k.entries = slices.Clone(k.starts), slices.Clone(k.ends), slices.Clone(k.entries)
		c.sketch = &k
	}
	return &c
}

// SetBack moves ids that were seen after a second to it: a clock that was ahead must not age all others.
func (s *Set) SetBack(second int64) {
	if s.newest <= second {
		return
	}
	s.newest, s.floor = second, min(s.floor, second)
	for i, at := range s.seconds {
		s.seconds[i] = uint32(min(int64(at), second))
	}
	if s.sketch != nil {
		s.sketch.setBack(second)
	}
	s.settle()
}
