package limit

import "time"

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

// sameCells tells whether both plans read a state alike, whatever their bursts.
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

// ahead tells whether the state has seen a time later than now.
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
