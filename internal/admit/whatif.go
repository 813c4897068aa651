package admit

import (
	"time"

	"github.com/weir-counter/weir/limit"
)

// This part says what a limit would have denied. Of the requests only the stretch of time in which they came is known,
// but not when within it. Pure.
//
// Its bounds hold however the requests lay within their stretches, for a limit of algorithm window that had let
// nothing through before the first.

// WhatIfPart is the requests of a key in one stretch of time; parts adjoin.
type WhatIfPart struct {
	From, To               int64 // Unix seconds: (From, To]
	Lower, Estimate, Upper uint64
}

// WhatIfDenied is what a limit would have denied.
type WhatIfDenied struct {
	Lower, Estimate, Upper uint64
	Of                     []uint64 // Estimate, of each part
}

// WhatIf decides the requests of a key. The estimate is the decisions of the plan, which must be of algorithm
// window, on requests that lie evenly in their parts.
func WhatIf(plan *limit.Plan, parts []WhatIfPart) WhatIfDenied {
	l := plan.Limit()
	d := WhatIfDenied{Of: make([]uint64, len(parts))}
	var s limit.State
	for i, p := range parts {
		passed := evenly(plan, &s, p)
		d.Of[i] = p.Estimate - passed
		d.Estimate += d.Of[i]
	}
	d.Lower, d.Upper = least(l, parts), most(l, parts)
	return d
}

// evenly asks for the requests of a part, and returns how many pass.
func evenly(plan *limit.Plan, s *limit.State, p WhatIfPart) (passed uint64) {
	width := uint64(p.To - p.From)
	asked := uint64(0)
	for i := uint64(1); i <= width && asked < p.Estimate; i++ {
		due := p.Estimate/width*i + p.Estimate%width*i/width
		if n := due - asked; n > 0 {
			passed += TakeOneByOne(plan, s, (p.From+int64(i))*int64(time.Second), n)
			asked = due
		}
	}
	return passed
}

// TakeOneByOne asks for n admissions at one time, one after the other, and returns how many a key gets.
func TakeOneByOne(plan *limit.Plan, s *limit.State, now int64, n uint64) (passed uint64) {
	if n == 1 {
		if plan.Allow(s, now, 1) {
			return 1
		}
		return 0
	}
	passed = min(n, plan.Peek(s, now, 0).Remaining)
	plan.Allow(s, now, passed)
	return passed
}

// least returns how many are denied at least. All parts that lie within one interval together pass no more than the
// burst. A longer part passes no more than the bursts of the intervals that cover it. Passing what can pass, the oldest
// first, passes the most under these bounds.
func least(l limit.Limit, parts []WhatIfPart) (denied uint64) {
	interval := l.Interval()
	passed := make([]uint64, len(parts))
	first, held := 0, uint64(0) // the parts from first on, before i, that lie within an interval that ends with i
	for i, p := range parts {
		for ; first < i && seconds(p.To-parts[first].From) > interval; first++ {
			held -= passed[first]
		}
		room := l.Burst - min(held, l.Burst)
		if width := seconds(p.To - p.From); width > interval {
			room = l.Burst * uint64((width+interval-1)/interval)
		}
		passed[i] = min(p.Lower, room)
		held += passed[i]
		denied += p.Lower - passed[i]
	}
	return denied
}

// subSlots is in how many parts of its interval a window counts at least, and so by what it may look back further.
const subSlots = 16

// most returns how many are denied at most. It assumes that all parts which one interval may touch pass no more than
// the burst together. A limit is less strict than this. A client that requests all that comes passes no fewer than a
// client that keeps to the stricter bound.
func most(l limit.Limit, parts []WhatIfPart) (denied uint64) {
	reach := l.Interval() + l.Interval()/subSlots
	passed := make([]uint64, len(parts))
	first, held := 0, uint64(0)
	for i, p := range parts {
		for ; first < i && seconds(p.From-parts[first].To) >= reach; first++ {
			held -= passed[first]
		}
		passed[i] = min(p.Upper, l.Burst-min(held, l.Burst))
		held += passed[i]
		denied += p.Upper - passed[i]
	}
	return denied
}

// PeakRequests is the most requests, by estimates, of adjoining parts that lie within an interval, or of one part.
func PeakRequests(interval time.Duration, parts []WhatIfPart) (peak uint64) {
	first, held := 0, uint64(0)
	for i, p := range parts {
		held += p.Estimate
		for ; first < i && seconds(p.To-parts[first].From) > interval; first++ {
			held -= parts[first].Estimate
		}
		peak = max(peak, held)
	}
	return peak
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }
