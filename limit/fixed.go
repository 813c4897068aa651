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

// fixedCharge ignores what is of an earlier interval: it is over.
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
