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
//     yet, and a Window up to 16 its burst, see Charge. Fixed and GCRA count what they
//     adopt, up to the burst, as if it was all just now, and so may need up to T from
//     the change until all is restored.
//
// What a form can't hold counts as later, by up to an 8th of the longest T that matters,
// but no later than the newest admission. Changes move it no further, however many: a
// Window denies nobody for longer than its T and a sub-slot after the newest admission
// (or after the first change, from a sub-slot, Fixed or GCRA: they know no times).
//
// Times later than now count as now: with p itself as old it repairs a state whose
// clock was ahead, and changes nothing otherwise.
//
// Cost: O(burst) up to 16, else O(1). A state that can't hold what it knows in its
// own form takes 296 bytes more, until nothing of that matters: never one that was
// only widened.
func (p *Plan) Adopt(s *State, old *Plan, now int64) {
	now = clamp(now)
	if !old.ahead(s, now) && (*old == *p || p.sameCells(old)) {
		return
	}
	s.pastLapse(old, now)
	var room [2 * (subSlots + 1)]admissions
	was := old.history(s, now, room[:0])
	var pastRoom [subSlots + 1]admissions
	var past []admissions
	matters := reach{}
	switch {
	case s.HasPast():
		past = s.pastWithin(pastRoom[:0], now)
		matters = s.pastReach()
		matters.used = min(matters.used, now)
	case p.needsPast(old, was):
		past = was
	}
	if p.form == gcra && old.form == gcra && !s.HasPast() && total(was) <= p.limit.Burst {
		s.gcraAdopt(p, old, now)
	} else {
		*s = State{}
		p.chargeAll(s, now, was)
	}
	if len(past) > 0 {
		s.pastBegin(p, matters.with(max(old.interval, p.interval), now), past)
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
	return (p.form == slots || p.form == fixed) && p.form == old.form && p.interval == old.interval && p.limit.Calendar == old.limit.Calendar
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
	case p.form == old.form && (p.form == ring || p.form == gcra):
		return total(was) > p.limit.Burst
	default:
		return true
	}
}

// ahead tells whether the state has seen a time later than now.
func (p *Plan) ahead(s *State, now int64) bool {
	if s.HasPast() && max(s.pastNewest(), s.pastReach().used) > now {
		return true
	}
	switch p.form {
	case ring:
		return s.at > now
	case slots:
		return s.at > now/p.width
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

// AppendKnown appends what Known calls its function with.
func (p *Plan) AppendKnown(list []Admitted, s *State, now int64) []Admitted {
	now = clamp(now)
	s.pastLapse(p, now)
	if s.HasPast() {
		p.Known(s, now, func(at int64, n uint64) { list = append(list, Admitted{at, n}) })
		return list
	}
	var room [subSlots + 1]admissions // half of what Known needs
	for _, a := range p.formHistory(s, now, room[:0]) {
		list = append(list, Admitted{a.at, a.n})
	}
	return list
}

// Doubt is by how much earlier than Known says an admission may have been: nothing of a
// Window up to a burst of 16, a sub-slot of a larger one, T of others, and of a state that
// has lived through a change of its limit.
func (p *Plan) Doubt(s *State) time.Duration {
	switch {
	case s.HasPast() || p.form == fixed || p.form == gcra:
		return time.Duration(p.interval)
	case p.form == slots:
		return time.Duration(p.width)
	}
	return 0
}
