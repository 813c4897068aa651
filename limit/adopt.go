package limit

import (
	"cmp"
	"slices"
	"time"
)

// Adopt makes p the state's plan in place of old, at the time now, without a fresh allowance. Every admission that old
// still knows of counts under p too, at the latest time at which it may have been. The new limit may therefore admit
// less than it would have from the start, but never more.
//
// A state knows more than its limit lets it use. If a limit is narrowed and then widened again, the state still knows
// all that was admitted meanwhile. A Window therefore never admits more than its burst within its interval T, whatever
// limits were in use in between. This counts all admissions under all limits that are not forgotten:
//
//   - The T of a limit matters while the limit is in use, and for T after that. Each change forgets what is as old as
//     the longest T that matters, or older. Take 10 per hour, then 10 per second, then 10 per hour again. The last limit
//     counts the whole last hour if the first one was in use within that hour; else it counts the last second. If
//     nothing is known then, the state starts over and earlier limits no longer matter.
//   - While no other limit matters, Fixed and GCRA know only what they have not restored yet. A Window knows little
//     more than its burst (see Charge). Fixed and GCRA count what they adopt, up to the burst, as if it was all just now.
//     They may need up to T from the change until all is restored.
//
// If a form can't hold an admission's time, the admission counts later: by up to an 8th of the longest T that matters,
// and never later than the newest admission. Further changes do not move it again. A Window denies nobody for longer
// than T and an 8th of T after the newest admission. From Fixed or GCRA, which know no times, this holds from the first
// change on.
//
// Times later than now count as now. With p itself as old, Adopt repairs a state whose clock was ahead, and changes
// nothing otherwise.
//
// Cost: O(what the state knows), at most 273 admissions. A state that can't hold what it knows in its own form takes
// 296 bytes more until none of that matters. A state that was only widened never does.
func (p *Plan) Adopt(s *State, old *Plan, now int64) {
	now = clamp(now)
	if !old.ahead(s, now) && (*old == *p || p.sameCells(old)) {
		return
	}
	s.pastLapse(old, now)
	was := old.history(s, now, nil)
	var past []admissions
	matters := reach{}
	switch {
	case s.past != nil:
		past = s.past.within(now)
		matters = s.past.reach
		matters.used = min(matters.used, now)
	case p.needsPast(old, was):
		past = was
	}
	if p.form == gcra && old.form == gcra && s.past == nil && total(was) <= p.limit.Burst {
		s.gcraAdopt(p, old, now)
	} else {
		*s = State{}
		p.chargeAll(s, now, was)
	}
	if len(past) > 0 {
		s.pastBegin(matters.with(max(old.interval, p.interval), now), past)
	}
}

// chargeAll charges what was admitted within the interval before now.
func (p *Plan) chargeAll(s *State, now int64, was []admissions) {
	for _, a := range was {
		switch {
		case a.n == 0, now-a.at >= p.interval, p.calendar != nil && a.at < p.periodStart(p.period(now)):
		case p.form == fixed || p.form == gcra:
			p.charge(s, now, a.n)
		default:
			p.charge(s, a.at, a.n)
		}
	}
}

// sameCells reports whether both plans read a state alike, whatever their bursts.
func (p *Plan) sameCells(old *Plan) bool {
	return p.form == fixed && p.form == old.form && p.interval == old.interval && p.limit.Calendar == old.limit.Calendar
}

// needsPast reports whether p's form can't hold all that old's state knew, with its times, for as long as it matters.
// Wider limits need no past: they forget nothing, and nobody widens a limit again and again.
func (p *Plan) needsPast(old *Plan, was []admissions) bool {
	switch {
	case len(was) == 0:
		return false
	case p.interval < old.interval:
		return true
	case p.limit.Algorithm == old.limit.Algorithm && p.limit.Burst >= old.limit.Burst:
		return false
	case p.form == old.form && p.form != fixed:
		return total(was) > p.limit.Burst
	default:
		return true
	}
}

// ahead reports whether the state has seen a time later than now.
func (p *Plan) ahead(s *State, now int64) bool {
	if s.past != nil && max(s.past.newest(), s.past.used) > now {
		return true
	}
	switch p.form {
	case log:
		return s.used > 0 && s.at > p.unitAfter(now)
	case fixed:
		return s.at > p.period(now)
	default:
		return int64(s.used) > now
	}
}

// Admitted is admissions that a state knows of: N of them, the last at the time At.
type Admitted struct {
	At int64 // ns, by the state's clock
	N  uint64
}

// mostKnown bounds what AppendKnown appends: it is for people.
const mostKnown = 32

// AppendKnown appends the admissions that Known reports, in at most 32 entries. If there are more, it joins neighbors
// at the latest of their times. doubt is by how much earlier each admission may have been. It is 0 for a Window with a
// burst up to 256 and at most 32 times. It is T for other forms, for larger bursts, and for a state whose limit was
// changed.
func (p *Plan) AppendKnown(list []Admitted, s *State, now int64) (_ []Admitted, doubt time.Duration) {
	now = clamp(now)
	s.pastLapse(p, now)
	if s.past != nil || p.form != log || p.merge > 1 {
		doubt = time.Duration(p.interval)
	}
	var first int64
	add := func(i, all int, at int64, n uint64) {
		if i%((all+mostKnown-1)/mostKnown) == 0 {
			list, first = append(list, Admitted{}), at
		}
		newest := &list[len(list)-1]
		newest.At, newest.N = at, newest.N+n
		doubt = max(doubt, time.Duration(at-first))
	}
	if s.past == nil && p.form == log {
		s.logUsed(p, now)
		for i := range s.logEntries() {
			at, n := s.logEntry(p, i)
			add(i, s.logEntries(), min(p.logTime(at), now), n)
		}
		return list, doubt
	}
	var one [1]admissions // all that Fixed and GCRA know
	was := p.history(s, now, one[:0])
	for i, a := range was {
		add(i, len(was), a.at, a.n)
	}
	return list, doubt
}

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

// refundPast is Refund of a state that knows more than its form holds: that moves up in place of what is given back.
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

// Shift moves all that s knows to another clock, which shows by ns more at the same moment. Window and
// GCRA are exact. What is counted in Fixed's intervals counts as up to one of these later, never as earlier: it never
// makes later decisions more generous. The same holds for times that would lie before the epoch of the clock.
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
