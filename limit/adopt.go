package limit

import "time"

// Adopt makes p the state's plan in place of old, at the time now, without a
// fresh allowance: every admission that old still knows of counts under p as well,
// at the latest time at which it may have been. The new limit may therefore admit
// less than it would have from the start, but never more.
//
// A state knows more than its limit lets it use: one that a smaller burst or a shorter
// interval adopts, and then a larger or longer one again, still knows all that was
// admitted. Whatever limits take turns, a Window so admits no more than its burst
// within its interval T, counting what each of the limits admitted, those in between
// too, but for what was forgotten:
//
//   - The T of a limit matters while the limit is in use, and for T after that. At each
//     change, what is as old as the longest T that matters or older is forgotten. So
//     10 per hour, then 10 per second, and again 10 per hour counts the whole last hour
//     when 10 per hour was last in use within the hour; else the last second. If
//     nothing is known then, the state starts over: limits before matter no more.
//   - While no other limit matters, Fixed and GCRA know only what they have not restored
//     yet, and a Window little more than its burst, see Charge. Fixed and GCRA count what they
//     adopt, up to the burst, as if it was all just now, and so may need up to T from
//     the change until all is restored.
//
// What a form can't hold counts as later, by up to an 8th of the longest T that matters,
// but no later than the newest admission. Changes move it no further, however many: a
// Window denies nobody for longer than its T and an 8th of that after the newest admission
// (or after the first change, from Fixed or GCRA: they know no times).
//
// Times later than now count as now: with p itself as old it repairs a state whose
// clock was ahead, and changes nothing otherwise.
//
// Cost: O(what the state knows), at most 273 admissions. A state that can't hold what it knows in its
// own form takes 296 bytes more, until nothing of that matters: never one that was
// only widened.
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
		case now-a.at >= p.interval, p.calendar != nil && a.at < p.periodStart(p.period(now)):
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

// needsPast tells whether p's form can't hold what old's state knew: all of it, as
// long as it matters, and each of its times as it is. Wider limits do without: they
// forget nothing, and nobody widens a limit again and again.
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

// AppendKnown appends what Known calls its function with, at most 32 of them: of more,
// neighbors are together at the latest of their times. doubt is by how much earlier each
// admission may have been: nothing of a Window up to a burst of 256 whose admissions were at
// few times, T of other forms and larger bursts, and of a state that has lived through a
// change of its limit.
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
