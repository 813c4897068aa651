package limit

// Fixed: the admissions of the interval [k*T, (k+1)*T) that the time lies in.

func (s *State) fixedUsed(p *Plan, now int64) uint64 {
	if now/p.interval > s.at {
		return 0
	}
	return s.used
}

func (s *State) fixedAdmit(p *Plan, now int64, n uint64) {
	if k := now / p.interval; k > s.at {
		s.at, s.used = k, 0
	}
	s.used += n
}

func (s *State) fixedWait(p *Plan, now int64, n uint64) int64 {
	if s.fixedUsed(p, now)+n <= p.limit.Burst {
		return 0
	}
	return (s.at+1)*p.interval - now
}
