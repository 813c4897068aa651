// Package limit decides admissions: N per period with a burst of B.
//
// The package is pure: it has no clock, no lock and no goroutine. Time is an argument, in nanoseconds since a beginning
// that the caller chooses, such as the Unix epoch. It is in the range 0 to 5.6e18 (the year 2149). A time outside
// counts as the nearest inside, and a time before the newest seen counts as the newest. A Plan is a limit made ready; a
// State is what one key has used of it.
//
// Three textbook designs are one algorithm here, Window: at most B admissions in any interval of length Per*B/N. B = 1
// is the minimum gap between two requests, B = k looks back k requests, B = N is "never more than N in any period".
package limit

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Algorithm says how a limit is kept.
type Algorithm uint8

const (
	// Window admits at most B in ANY half-open interval (t-T, t] of length T = Per*B/N, whatever the pattern of
	// arrivals. Up to a burst of 256 it remembers each admission, to the nanosecond up to a T of 104 days, and denies
	// none that fits. A larger burst denies a request that fits only while less than 1 % of the burst is free. For
	// requests for 1, it admits at least 99 % of what a log of all times admits.
	Window Algorithm = iota

	// Fixed restores B at the multiples of T, the counter that most services
	// have. Worst case: 2*B within T, one burst on either side of a multiple.
	Fixed

	// GCRA is the generic cell rate algorithm (ITU-T I.371), a token bucket of B tokens that fills by N per Per. Worst
	// case: 2*B-1 within T, a burst and what is filled meanwhile.
	GCRA
)

func (a Algorithm) String() string {
	switch a {
	case Window:
		return "window"
	case Fixed:
		return "fixed"
	case GCRA:
		return "gcra"
	}
	return fmt.Sprintf("algorithm %d", uint8(a))
}

// ParseAlgorithm returns the Algorithm whose String is word.
func ParseAlgorithm(word string) (a Algorithm, ok bool) {
	for a = Window; a <= GCRA; a++ {
		if a.String() == word {
			return a, true
		}
	}
	return Window, false
}

// Limit is N admissions per period Per, with bursts of Burst.
type Limit struct {
	N         uint64        // 1 to 1,000,000 per second of Per, rounded up
	Per       time.Duration // 1 ms to MaxPer
	Burst     uint64        // 1 to MaxBurst; 0: N
	Algorithm Algorithm

	// Calendar, unless zero, restores the burst, which is N, at its edges. Algorithm is then Fixed and Per is
	// Unit.Period; both are filled in.
	Calendar Calendar
}

// Interval is T of a limit that New takes, with its burst filled in: Per*Burst/N, rounded up so that it is never over.
func (l Limit) Interval() time.Duration {
	return time.Duration(mulDivUp(uint64(l.Per), l.Burst, l.N))
}

const (
	// MaxPer is the longest period: a year, 366d in messages.
	MaxPer = 366 * 24 * time.Hour

	// MaxRate is the most admissions per second.
	MaxRate = 1_000_000

	// MaxBurst is the largest burst.
	MaxBurst = 1 << 45

	maxInterval = 100 * MaxPer

	// maxTime leaves space above it for the longest interval: no sum of a time and what a plan adds to it overflows.
	maxTime = math.MaxInt64 - int64(maxInterval/8*9)
)

// Plan is a limit made ready for decisions. It does not change.
type Plan struct {
	limit    Limit
	form     form
	interval int64 // T = Per*Burst/N in ns, rounded up: never over
	width    int64 // GCRA: of one admission, in ns, rounded up
	full     int64 // GCRA: Burst widths, how far ahead a bucket in use may be
	logPlan

	calendar *calendar // of a Fixed by the calendar; interval is then the longest of its periods
}

// form is the algorithm as it is kept.
type form uint8

const (
	log form = iota // Window
	fixed
	gcra
)

// New returns the plan of a limit, or an error that names the field.
func New(l Limit) (*Plan, error) {
	var by *calendar
	if l.Calendar.Unit != NoUnit {
		var err error
		if by, err = newCalendar(l.Calendar); err != nil {
			return nil, err
		}
		if l.Per != 0 && l.Per != l.Calendar.Unit.Period() || l.Algorithm != Window && l.Algorithm != Fixed || l.Burst != 0 && l.Burst != l.N {
			return nil, fmt.Errorf("limit: a quota by the calendar has a number alone: no per, burst or algorithm")
		}
		l.Calendar, l.Per, l.Algorithm = by.spec, l.Calendar.Unit.Period(), Fixed
	}
	if l.Burst == 0 {
		l.Burst = l.N
	}
	switch {
	case l.Per < time.Millisecond || l.Per > MaxPer:
		return nil, fmt.Errorf("limit: per of %v: must be 1ms to 366d", l.Per)
	case l.N < 1 || l.N > mostPer(l.Per):
		return nil, fmt.Errorf("limit: n of %d per %v: must be 1 to %d, a million per second", l.N, l.Per, mostPer(l.Per))
	case l.Burst > MaxBurst:
		return nil, fmt.Errorf("limit: burst of %d: must be 1 to %d", l.Burst, uint64(MaxBurst))
	case l.Calendar.Unit == NoUnit && l.Calendar != (Calendar{}):
		return nil, fmt.Errorf("limit: an anchor or a zone without a day, week or month")
	case l.Algorithm > GCRA:
		return nil, fmt.Errorf("limit: algorithm %d: must be window, fixed or gcra", l.Algorithm)
	}
	interval := uint64(l.Interval())
	if interval > uint64(maxInterval) {
		return nil, fmt.Errorf("limit: burst of %d at %d per %v takes %d years to fill: at most 100", l.Burst, l.N, l.Per, interval/uint64(MaxPer))
	}
	p := &Plan{limit: l, interval: int64(interval), calendar: by}
	switch {
	case l.Algorithm == Fixed:
		p.form = fixed
		if by != nil {
			p.interval += int64(longer)
		}
	case l.Algorithm == GCRA:
		p.form = gcra
		p.width = int64(mulDivUp(uint64(l.Per), 1, l.N))
		p.full = int64(l.Burst) * p.width
	default:
		p.setLog()
	}
	return p, nil
}

// mostPer is a million per second of per, rounded up.
func mostPer(per time.Duration) uint64 { return mulDivUp(uint64(per), MaxRate, uint64(time.Second)) }

// mulDivUp is a*b/c rounded up, math.MaxUint64 if that is too large; c > 0.
func mulDivUp(a, b, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	lo, carry := bits.Add64(lo, c-1, 0)
	if hi += carry; hi >= c {
		return math.MaxUint64
	}
	q, _ := bits.Div64(hi, lo, c)
	return q
}

// Limit is what the plan was made from, the burst filled in.
func (p *Plan) Limit() Limit { return p.limit }

// Interval is T: the length of the intervals that have at most Burst admissions.
func (p *Plan) Interval() time.Duration { return time.Duration(p.interval) }

// clamp is the time as it counts.
func clamp(now int64) int64 { return min(max(now, 0), maxTime) }

// Where says which nodes of a cluster count a limit together, and who decides.
type Where uint8

const (
	// WhereLeased counts the admissions of all nodes. One node, the owner of the key, decides, and grants parts of the
	// limit to the others, which decide by themselves within these. A node without a cluster is the owner of all keys.
	WhereLeased Where = iota

	// WhereNode counts the admissions of one node alone.
	WhereNode

	// WhereStrict counts the admissions of all nodes. The owner of the key decides each request, and grants nothing.
	WhereStrict
)

// ByOne reports whether one node, the owner, decides for each key, and so may be unreachable.
func (w Where) ByOne() bool { return w != WhereNode }

func (w Where) String() string {
	switch w {
	case WhereLeased:
		return "leased"
	case WhereNode:
		return "node"
	case WhereStrict:
		return "strict"
	}
	return fmt.Sprintf("where %d", uint8(w))
}

// Known calls f for the admissions that still matter at the time now, the oldest first. Each call has n admissions, at
// the latest time at which they may have been. Another state that is charged with all of them decides no more
// generously. At most 273 calls.
func (p *Plan) Known(s *State, now int64, f func(at int64, n uint64)) {
	now = clamp(now)
	s.pastLapse(p, now)
	for _, a := range p.history(s, now, nil) {
		f(a.at, a.n)
	}
}

// KeyUse is what one key has used of its limit.
type KeyUse struct {
	Key       string
	Limit     Limit // that the key was last asked by
	Used      uint64
	Remaining uint64
	Reset     time.Duration // until the whole burst is there again
}

// Share is the part of the burst that is in use, 0 to 1.
func (u KeyUse) Share() float64 { return float64(u.Used) / float64(u.Limit.Burst) }

// Compare orders the keys that have used most of their limits first: negative if u comes before o.
func (u KeyUse) Compare(o KeyUse) int {
	return cmp.Or(cmp.Compare(o.Share(), u.Share()), cmp.Compare(o.Used, u.Used), cmp.Compare(u.Key, o.Key))
}
