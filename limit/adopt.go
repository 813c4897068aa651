package limit

// Adopt makes p the state's plan in place of old, at the time now, without a
// fresh allowance: every admission that old still knows of counts under p as well,
// at the latest time at which it may have been. The new limit may therefore admit
// less than it would have from the start, but never more.
//
// A state knows more than its limit lets it use: one that a smaller burst adopts,
// and then a larger one again, still knows all that was admitted. Whatever limits
// take turns, a Window so admits no more than its burst within its interval T,
// counting what each of the limits admitted, but for what was forgotten:
//
//   - What is T or older at a change, by the T of either limit, is forgotten then:
//     a limit with a short interval in between forgets what is older than that.
//   - Of the time before the first change, Fixed and GCRA know only what they have
//     not restored yet. They count what they adopt, up to the burst, as if it was all
//     just now, and so may need up to T from the change until all is restored.
//
// Times later than now count as now: with p itself as old it repairs a state whose
// clock was ahead, and changes nothing otherwise.
//
// Cost: O(burst) up to 16, else O(1). A state that can't hold what it knows in its
// own form takes 272 bytes more, until it is idle: never one that was only widened.
func (p *Plan) Adopt(s *State, old *Plan, now int64) {
	now = clamp(now)
	ahead := old.ahead(s, now)
	if !ahead && (*old == *p || p.sameCells(old)) {
		return
	}
	var room [subSlots + 1 + ringMost]admissions
	was := old.history(s, now, min(old.interval, p.interval), room[:0])
	past := p.needsPast(old, s.hasPast(), was)
	if p.form == gcra && old.form == gcra && !past && !s.hasPast() {
		s.gcraAdopt(p, old, now)
		return
	}
	*s = State{}
	for _, a := range was {
		at := a.at
		if p.form == fixed || p.form == gcra {
			at = now
		}
		p.charge(s, at, a.n)
	}
	if past {
		s.pastBegin(p)
		for _, a := range was {
			s.pastAdd(p, a.at, a.n)
		}
	}
}

// sameCells tells whether both plans read a state alike, whatever their bursts.
func (p *Plan) sameCells(old *Plan) bool {
	return (p.form == slots || p.form == fixed) && p.form == old.form && p.interval == old.interval
}

// needsPast tells whether p's form can't hold what old's state knew: all of it, and
// each of its times as it is. Wider limits do without: they forget nothing, and nobody
// widens a limit again and again.
func (p *Plan) needsPast(old *Plan, had bool, was []admissions) bool {
	switch {
	case had || len(was) == 0:
		return had && len(was) > 0
	case p.limit.Algorithm == old.limit.Algorithm && p.limit.Burst >= old.limit.Burst && p.interval >= old.interval:
		return false
	case p.form == old.form && (p.form == ring || p.form == gcra):
		return total(was) > p.limit.Burst
	default:
		return true
	}
}

// ahead tells whether the state has seen a time later than now.
func (p *Plan) ahead(s *State, now int64) bool {
	if s.pastNewest() > now {
		return true
	}
	switch p.form {
	case ring:
		return s.at > now
	case slots:
		return s.at > now/p.width
	case fixed:
		return s.at > now/p.interval
	default:
		return int64(s.used) > now
	}
}
