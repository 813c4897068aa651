package limit

import (
	"cmp"
	"slices"
)

// Refund gives back up to n admissions that were taken at a time from first to last. It returns in free how many more
// are free now, and in given how many of them s had. Another state that knows the same admissions, and more, must give
// back given. The result given exceeds free if more than the burst was charged. A caller that does not know the time,
// and gives back what was just taken, passes math.MaxInt64 for both.
//
// It never makes s fresher than if these had not been admitted, so the limit holds for what was really used:
//
//   - Window gives back the oldest admissions within first to last. If these are too few, it gives back earlier ones, the
//     newest of them first.
//   - Fixed gives back admissions of the present interval, if first is in it.
//   - GCRA gives back what the bucket has not filled since first anyway.
//
// What has left the window can't be given back: n is clipped. A Window with a burst above 256 joins admissions at the
// latest of their times. It therefore also gives back of the first entry at last or later.
//
// Cost: as Charge.
func (p *Plan) Refund(s *State, now, first, last int64, n uint64) (free, given uint64) {
	now, first, last = clamp(now), clamp(first), clamp(last)
	if n == 0 {
		return 0, 0
	}
	s.pastLapse(p, now)
	before := p.free(s, now)
	if s.past != nil {
		given = p.refundPast(s, now, first, last, n)
	} else {
		given = p.refundForm(s, now, first, last, n)
	}
	return min(n, p.free(s, now)-before), given
}

// refundForm is Refund of what the plan's form holds.
func (p *Plan) refundForm(s *State, now, first, last int64, n uint64) (given uint64) {
	switch p.form {
	case log:
		return s.logRefund(p, now, first, last, n)
	case fixed:
		return s.fixedRefund(p, now, first, n)
	case gcra:
		return s.gcraRefund(p, now, first, n)
	}
	return 0
}

// refundPast is Refund of a state that knows more than its form holds: that moves up
// in place of what is given back.
func (p *Plan) refundPast(s *State, now, first, last int64, n uint64) (given uint64) {
	was := p.history(s, now, nil)
	past, matters := s.past.within(now), s.past.reach
	given = giveBack(past, first, last, n, false)
	switch p.form {
	case log:
		given = giveBack(was, first, last, n, false)
		*s = State{}
		p.chargeAll(s, now, was)
	default:
		within := uint64(0)
		for _, a := range past {
			if now-a.at < p.interval {
				within += a.n
			}
		}
		if p.form == fixed || within <= p.limit.Burst {
			p.refundForm(s, now, first, last, n)
		}
	}
	s.pastBegin(matters, past)
	return given
}

// giveBack takes up to n out of a list, the oldest first, in the order of Refund, and returns how many. If joined, the
// entries of the list join admissions at the latest of their times.
func giveBack(list []admissions, first, last int64, n uint64, joined bool) (given uint64) {
	all := n
	from, _ := slices.BinarySearchFunc(list, first, func(a admissions, at int64) int { return cmp.Compare(a.at, at) })
	give := func(a *admissions) {
		some := min(n, a.n)
		a.n -= some
		n -= some
	}
	for i := from; i < len(list) && (list[i].at <= last || joined && (i == 0 || list[i-1].at < last)); i++ {
		give(&list[i])
	}
	for i := from - 1; i >= 0; i-- {
		give(&list[i])
	}
	return all - n
}

func (s *State) logRefund(p *Plan, now, first, last int64, n uint64) (given uint64) {
	s.logUsed(p, now)
	if max(now, p.newest(s))-first >= p.interval {
		return 0
	}
	list := s.logList(p, nil)
	given = giveBack(list, first, last, n, p.merge > 1)
	s.logFill(p, list)
	return given
}

func (s *State) fixedRefund(p *Plan, now, first int64, n uint64) (given uint64) {
	s.fixedAdvance(p, now)
	if first >= p.periodStart(s.at) {
		given = min(n, s.used)
	}
	s.used -= given
	return given
}

// gcraRefund gives back what the bucket would hold more now if n had not been admitted. Without them it may have become
// full since first. It would then have lost at most what fills in that time, so that much is subtracted.
func (s *State) gcraRefund(p *Plan, now, first int64, n uint64) (given uint64) {
	now = max(now, int64(s.used))
	n, since := min(n, p.limit.Burst), max(0, now-first)
	give := max(0, min(int64(n)*p.width-since, s.at-now))
	s.at -= give
	if give == 0 {
		return 0
	}
	return min(n, uint64((give+since+p.width-1)/p.width))
}

// Shift moves all that s knows by so many ns, to another clock: one that shows by more
// at the same moment. Window and GCRA are exact. What is counted in Fixed's intervals
// counts as up to one of these later, never as earlier: it never makes later decisions more
// generous. So does what would lie before the epoch of the clock.
//
// Times may be ahead of the caller's clock then: p.Adopt(s, p, now) repairs that.
func (p *Plan) Shift(s *State, by int64) {
	if by == 0 {
		return
	}
	shift := func(list []admissions) []admissions {
		for i := range list {
			list[i].at = clampShift(list[i].at, by)
		}
		return list
	}
	if s.past != nil {
		r := s.past.reach
		r.used = clampShift(r.used, by)
		s.pastBegin(r, shift(s.past.list()))
	}
	switch p.form {
	case log:
		s.logFill(p, shift(s.logList(p, nil)))
	case fixed:
		if p.calendar == nil { // else its periods follow the time of day
			s.at = max(0, s.at+ceilDiv(by, p.interval))
		}
	case gcra:
		newest := clampShift(int64(s.used), by)
		s.at += newest - int64(s.used)
		s.used = uint64(newest)
	}
}

func clampShift(at, by int64) int64 {
	return min(max(at+min(max(by, -maxTime), int64(maxInterval)), 0), maxTime)
}

func ceilDiv(a, b int64) int64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}
