// Package window keeps the hits of one key and answers how many of them lie in
// any rolling window (at-w, at], for w from one second to a billion seconds.
//
// The package is pure: time is an argument, in Unix seconds. There is no clock, no lock and no goroutine, so a Window
// must not be used by two goroutines at once.
//
// A Window has two forms. With few hits it keeps (second, n) pairs only (pairs.go), and every answer is exact. With
// many it keeps a pyramid of running totals (pyramid.go): exact to the second for the newest 511 s, and with one slot
// of at most 1 % of the window in doubt beyond. Every answer carries its bounds.
//
// What was rejected, and why: exponential histograms (Datar, Gionis, Indyk, Motwani: "Maintaining Stream Statistics
// over Sliding Windows", 2002) bound the relative error of a count, but take no late hits and lose precision when
// merged. Fixed rings of 1 s, 30 min and 12 h slots have an edge slot of up to half the window.
package window

import (
	"fmt"
	"math"
	"slices"
	"unsafe"
)

const (
	// MaxSeconds is the longest window and the longest retention, in seconds (31.7 years).
	MaxSeconds = 1_000_000_000

	// MaxTime is the latest time a hit may have, in Unix seconds (the year 2514). The earliest is 0. It is one less
	// than 34 bits hold, so that callers that pack times can mark the absence of one.
	MaxTime = 1<<34 - 2

	// DefaultRetention is used where none is given: 30 days, in seconds.
	DefaultRetention = 30 * 24 * 3600

	// MinRetention is the shortest retention, in seconds: windows of 300 s are
	// exact, and hits that are late within that horizon find their second.
	MinRetention = baseSlots - 1

	retentionBits = 30 // 1e9 < 1<<30, so newest and retention share one word
	retentionMask = 1<<retentionBits - 1
)

// Window holds the hits of one key. The zero Window is empty and keeps hits
// for DefaultRetention. A Window must not be copied once it has hits.
type Window struct {
	// head is newest<<retentionBits | retention: the second of the newest hit (0 while empty) and the retention in
	// seconds (0: DefaultRetention). Two numbers in one word, because ten million sparse keys feel every byte.
	head  uint64
	dense *pyramid // the hits, once there are many
	stack          // the hits, while there are few; empty once dense is set
}

// Outcome says what became of a hit.
type Outcome uint8

const (
	Refused    Outcome = iota // before 1970 or after MaxTime, or for the reason in the error: nothing changed
	Counted                   // added to its slot
	Late                      // added to its slot; the window has a newer hit
	TooLate                   // refused: older than the retention, nothing changed
	ForHistory                // older than the retention: in no slot, but a weir.Engine keeps it for its history
)

// String is the outcome in lower case.
func (o Outcome) String() string {
	switch o {
	case Counted:
		return "counted"
	case Late:
		return "late"
	case TooLate:
		return "too late"
	case ForHistory:
		return "for history"
	}
	return "refused"
}

// New returns an empty window that keeps hits for at least retention seconds, 1
// to MaxSeconds. Less than MinRetention counts as MinRetention.
func New(retention int64) (Window, error) {
	if retention < 1 || retention > MaxSeconds {
		return Window{}, fmt.Errorf("window: retention of %d s: must be 1 to %d s", retention, int64(MaxSeconds))
	}
	return Window{head: uint64(max(retention, MinRetention))}, nil
}

// Retention is how long hits are kept for certain, in seconds.
func (w *Window) Retention() int64 {
	if r := int64(w.head & retentionMask); r != 0 {
		return r
	}
	return DefaultRetention
}

// Newest is the Unix second of the newest hit; ok is false while there is none.
func (w *Window) Newest() (second int64, ok bool) {
	return w.newest(), !w.empty()
}

// Total is the number of all hits ever counted, those older than the
// retention included. It saturates at math.MaxUint64.
func (w *Window) Total() uint64 {
	if w.dense != nil {
		return addSat(w.dense.older, w.dense.total(w.newest()))
	}
	return w.pairs().total(w.newest())
}

// Dense reports whether the hits are kept in the pyramid rather than as pairs.
func (w *Window) Dense() bool { return w.dense != nil }

// Size is the memory the window takes, itself included, in bytes.
func (w *Window) Size() int {
	size := int(unsafe.Sizeof(*w)) + int(w.capacity)
	if w.dense != nil {
		size += int(unsafe.Sizeof(*w.dense)) + w.dense.readings.size()
	}
	return size
}

// Add counts n hits at the Unix second at, in any order of times. A hit older than the retention, measured from the
// newest hit, is refused as TooLate. n = 0 changes nothing. Counts saturate at math.MaxUint64.
//
// Cost: amortised O(1) in order; a late hit O(slots newer than it in its level): at most
// 511 within the newest 511 s, 127 and one for each finer level beyond.
func (w *Window) Add(at int64, n uint64) Outcome {
	if at < 0 || at > MaxTime {
		return Refused
	}
	newest := w.newest()
	if !w.empty() && at <= newest-w.Retention() {
		return TooLate
	}
	if n == 0 {
		return Counted
	}
	late := !w.empty() && at < newest
	w.put(at, n)
	if late {
		return Late
	}
	return Counted
}

// Settle counts n hits that were accepted earlier, at a second from 0 to MaxTime. It never refuses. If they are now older
// than the retention, it adds them to the hits that have left, and with them all pairs that are as old.
// Otherwise a window between such a pair and a hit that has left would be called exact.
func (w *Window) Settle(at int64, n uint64) {
	switch newest := w.newest(); {
	case n == 0:
	case w.empty() || at > newest-w.Retention():
		w.put(at, n)
	case w.dense != nil:
		w.dense.older = addSat(w.dense.older, n)
	default:
		list, older := w.pairs().list(newest)
		w.keep(packPairs(list, addSat(older, n)).trim(newest, newest-w.Retention()))
		w.bound()
	}
}

// Retract takes back n hits that were counted at the second at: afterwards counts are as if they had never been counted. If there are
// fewer, it takes them all. It returns how many hits it took. Newest may stay as it was.
//
// Cost: O(slots newer than at in its level), of few hits O(pairs).
func (w *Window) Retract(at int64, n uint64) (taken uint64) {
	switch {
	case n == 0 || w.empty():
		return 0
	case w.dense != nil:
		return w.dense.retract(w.newest(), at, n)
	default:
		list, older := w.pairs().list(w.newest())
		i := slices.IndexFunc(list, func(p pair) bool { return p.at == at })
		switch {
		case i < 0 && at > w.newest()-w.Retention():
			return 0
		case i < 0: // it has left
			taken = min(older, n)
			older -= taken
		case list[i].n > n:
			taken = n
			list[i].n -= n
		case len(list) == 1:
			taken = list[i].n
			w.stack = stack{}
			w.setNewest(0)
			return taken
		default:
			taken = list[i].n
			list = slices.Delete(list, i, i+1)
		}
		w.setNewest(list[0].at)
		w.keep(packPairs(list, older))
		return taken
	}
}

func (w *Window) put(at int64, n uint64) {
	if w.dense == nil {
		w.addPair(at, n)
	} else {
		w.addDense(at, n)
	}
}

func (w *Window) addPair(at int64, n uint64) {
	w.keep(w.pairs().add(w.newest(), at, n))
	w.setNewest(max(w.newest(), at))
	w.bound()
}

// bound keeps the pairs within maxPairBytes, beyond which they could not be decoded. It drops pairs that are older than the
// retention. If the rest is still too long, it makes a pyramid of it. Each change that may lengthen the pairs, or the
// number of hits that have left, calls bound.
func (w *Window) bound() {
	if w.length <= maxPairBytes {
		return
	}
	w.keep(w.pairs().trim(w.newest(), w.newest()-w.Retention()))
	if w.length > maxPairBytes {
		w.promote()
	}
}

func (w *Window) addDense(at int64, n uint64) {
	if newest := w.newest(); at > newest {
		w.dense.advance(newest, at)
		w.setNewest(at)
	}
	w.dense.add(w.newest(), at, n)
}

// promote turns the pairs into a pyramid. The pyramid is a function of the set
// of pairs alone, so the order in which they came does not show.
func (w *Window) promote() {
	list, older := w.pairs().list(w.newest())
	w.dense = newPyramid(w.Retention(), older)
	w.stack = stack{}
	w.setNewest(list[len(list)-1].at)
	for i := len(list) - 1; i >= 0; i-- {
		w.addDense(list[i].at, list[i].n)
	}
}

func (w *Window) empty() bool   { return w.dense == nil && w.length == 0 }
func (w *Window) newest() int64 { return int64(w.head >> retentionBits) }

func (w *Window) setNewest(second int64) {
	w.head = uint64(second)<<retentionBits | w.head&retentionMask
}

// Rate is a Count per second of its window: Lower <= truth <= Upper, and Estimate
// between them. An Upper of +Inf says that no upper bound is known.
type Rate struct {
	Lower, Estimate, Upper float64
}

// Per is the mean rate of a count over a window of seconds, at least one.
func (c Count) Per(seconds int64) Rate {
	w := float64(seconds)
	r := Rate{float64(c.Lower) / w, float64(c.Estimate) / w, float64(c.Upper) / w}
	if !c.HasUpper() {
		r.Upper = math.Inf(1)
	}
	return r
}

// Exact reports whether nothing is in doubt: Lower = Estimate = Upper.
func (r Rate) Exact() bool { return r.Lower == r.Upper }

// HasUpper reports whether Upper is a bound.
func (r Rate) HasUpper() bool { return !math.IsInf(r.Upper, 1) }

// String is the rate, with what is known of it: "1.5", "1.5 (1.4 to 1.7)", or
// without an upper bound "1.5 or more" and "1.5 (1.4 or more)".
func (r Rate) String() string {
	switch {
	case r.Exact():
		return fmt.Sprintf("%.6g", r.Estimate)
	case r.HasUpper():
		return fmt.Sprintf("%.6g (%.6g to %.6g)", r.Estimate, r.Lower, r.Upper)
	case r.Lower == r.Estimate:
		return fmt.Sprintf("%.6g or more", r.Lower)
	}
	return fmt.Sprintf("%.6g (%.6g or more)", r.Estimate, r.Lower)
}

// WithRetention returns a copy k that keeps hits for another time, in seconds as in New. If that is shorter, older hits
// join the hits that have left. If it is longer, the hits that have left do not come back: gone is their number. They
// are at least w's retention older than its newest hit. A count of k that reaches back that far may lack them, and says
// so only beyond k's own retention.
func (w *Window) WithRetention(retention int64) (k Window, gone uint64, err error) {
	if k, err = New(retention); err != nil || w.empty() {
		return k, 0, err
	}
	newest := w.newest()
	k.setNewest(newest)
	if w.dense == nil {
		k.keep(w.pairs().trim(newest, newest-k.Retention()))
		if k.Retention() > w.Retention() {
			_, gone = k.pairs().list(newest)
		}
		return k, gone, nil
	}
	k.dense = newPyramid(k.Retention(), w.dense.older)
	levels := min(w.dense.levels(), 1+k.dense.top)
	k.dense.readings = w.dense.readings.clone(baseSlots + (levels-1)*upperSlots)
	if k.dense.top > w.dense.top {
		k.dense.letGo(newest, w.dense.top)
	}
	if k.Retention() > w.Retention() {
		gone = k.dense.older
	}
	return k, gone, nil
}

// letGo moves the hits before the oldest boundary of a level, which was the highest, to
// those that have left: higher levels would take them for hits of their oldest slot.
func (p *pyramid) letGo(newest int64, level int) {
	low, _ := span(level, newest)
	if gone := p.value(level, low); gone > 0 {
		left := newReadings()
		left.resize(p.readings.len())
		p.each(newest, func(level, place int) bool {
			reading := p.readings.get(level, place)
			left.set(level, place, reading-min(gone, reading))
			return true
		})
		p.readings = left
		p.older = addSat(p.older, gone)
	}
	for p.levels() > 1 {
		if _, high := span(p.levels()-1, newest); p.value(p.levels()-1, high) > 0 {
			return
		}
		p.readings.resize(p.readings.len() - upperSlots)
	}
}
