package limit

// Fixed: the admissions of the interval [k*T, (k+1)*T) that the time lies in.
// With a calendar they are its periods, by number. State.at is k, State.used its
// admissions: more than the burst if a larger one was in use before, at most MaxBurst.

// fixedAdvance goes to the interval of now. It divides only at an interval's end.
func (s *State) fixedAdvance(p *Plan, now int64) {
	if p.calendar != nil {
		if at := p.period(now); at > s.at {
			s.at, s.used = at, 0
		}
		return
	}
	if now >= (s.at+1)*p.interval {
		s.at, s.used = now/p.interval, 0
	}
}

func (s *State) fixedAllow(p *Plan, now int64, n uint64) bool {
	s.fixedAdvance(p, now)
	if s.used+n > p.limit.Burst {
		return false
	}
	s.used += n
	return true
}

// fixedCharge ignores admissions of an earlier interval, which has ended.
func (s *State) fixedCharge(p *Plan, at int64, n uint64) {
	if at < p.periodStart(s.at) {
		return
	}
	s.fixedAdvance(p, at)
	s.used = min(s.used+n, MaxBurst)
}

func (s *State) fixedWait(p *Plan, now int64, n uint64) int64 {
	if s.used+n <= p.limit.Burst {
		return 0
	}
	return p.periodStart(s.at+1) - now
}

func (s *State) fixedReset(p *Plan, now int64) int64 {
	if s.used == 0 {
		return 0
	}
	return p.periodStart(s.at+1) - now
}

func (s *State) fixedIdle(p *Plan, now int64) bool {
	if s.used == 0 {
		return now >= p.periodStart(s.at)
	}
	return now >= p.periodStart(s.at+1)
}

// GCRA: State.at is the theoretical arrival time, at which the bucket would be full again; each admission moves it on
// by the width of one. State.used is the newest time seen, in ns. Invariant: used <= at <= used + Burst widths.

// gcraAhead is how far the bucket is from full at now, or at the newest time seen if that is later, in ns.
func (s *State) gcraAhead(now int64) int64 {
	return max(0, s.at-max(now, int64(s.used)))
}

func (s *State) gcraUsed(p *Plan, now int64) uint64 {
	ahead := s.gcraAhead(now)
	if ahead == 0 {
		return 0
	}
	return uint64(ahead+p.width-1) / uint64(p.width)
}

func (s *State) gcraAllow(p *Plan, now int64, n uint64) bool {
	now = max(now, int64(s.used))
	at, more := max(s.at, now), int64(n)*p.width
	if at-now > p.full-more {
		return false
	}
	s.at, s.used = at+more, uint64(now)
	return true
}

// gcraCharge charges what is late as if at the newest time seen, which is more
// than it was: the bucket has no past. A full bucket stays full.
func (s *State) gcraCharge(p *Plan, at int64, n uint64) {
	newest, more := max(at, int64(s.used)), int64(n)*p.width
	s.at = min(max(s.at, at), newest+p.full-more) + more
	s.used = uint64(newest)
}

func (s *State) gcraWait(p *Plan, now int64, n uint64) int64 {
	late := int64(p.limit.Burst-n) * p.width
	if s.gcraAhead(now) <= late {
		return 0
	}
	return s.at - late - now
}

func (s *State) gcraReset(now int64) int64 {
	if s.gcraAhead(now) == 0 {
		return 0
	}
	return s.at - now
}

// gcraAdopt keeps how many admissions the bucket lacks, with the fraction of one. Rounding it up at each of many
// changes would never let the bucket fill. The new bucket must hold them: p.full is not less.
func (s *State) gcraAdopt(p, old *Plan, now int64) {
	ahead := mulDivUp(uint64(s.gcraAhead(now)), uint64(p.width), uint64(old.width))
	s.at, s.used = now+int64(min(ahead, uint64(p.full))), uint64(now)
}
